package fsm

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/trivet-ha/trivet/fsm/membership"
)

// modelFlags is what was decided of members, naively.
type modelFlags struct {
	observer, maintenance map[string]bool
	address               map[string]string
}

func newModelFlags() modelFlags {
	return modelFlags{observer: map[string]bool{}, maintenance: map[string]bool{},
		address: map[string]string{"a": member("a").Address}}
}

func (s modelFlags) forget(id string) {
	delete(s.observer, id)
	delete(s.maintenance, id)
	delete(s.address, id)
}

func (s modelFlags) text(id string) string {
	return fmt.Sprintf("observer %v, maintenance %v", s.observer[id], s.maintenance[id])
}

func flagsText(s membership.MemberFlags) string {
	return fmt.Sprintf("observer %v, maintenance %v", s.Observer, s.Maintenance)
}

// votersWithout counts the voters other than one, those that live, and those
// that may lead.
func (m *model) votersWithout(id string) (voters, live, candidates int) {
	for other := range m.members {
		if other == id || m.flags.observer[other] {
			continue
		}
		voters++
		for _, s := range m.sessions {
			if s.peer != other {
				continue
			}
			live++
			if !s.refuses && !m.flags.maintenance[other] {
				candidates++
			}
		}
	}
	return voters, live, candidates
}

func (m *model) lives(id string) bool {
	for _, s := range m.sessions {
		if s.peer == id {
			return true
		}
	}
	return false
}

func (m *model) stands(c Command) Code {
	switch c := c.(type) {
	case membership.MoveMember:
		if m.members[c.Peer] == 0 {
			return NotFound
		}
		for id, address := range m.flags.address {
			if id != c.Peer && address == c.Address {
				return Conflict
			}
		}
		m.flags.address[c.Peer] = c.Address
	case membership.Exclude:
		if m.members[c.Peer] == 0 {
			return NotFound
		}
		of := m.flags.maintenance
		if c.From == membership.FromVoting {
			of = m.flags.observer
		}
		if of[c.Peer] != c.On && m.forbids(c) {
			return Refused
		}
		of[c.Peer] = c.On
	}
	return OK
}

func (m *model) forbids(c membership.Exclude) bool {
	voters, live, candidates := m.votersWithout(c.Peer)
	switch {
	case c.From == membership.FromVoting && c.On:
		return voters == 0 || !c.Force && (2*live <= voters || candidates == 0)
	case c.From == membership.FromVoting:
		return !c.Force && !m.lives(c.Peer)
	default:
		return c.On && !c.Force && !m.flags.observer[c.Peer] && candidates == 0
	}
}

// ofMemberFlags draws what an operator may decide of a member.
func ofMemberFlags(t *rapid.T) Command {
	of := peer(t)
	if rapid.IntRange(0, 3).Draw(t, "move") == 0 {
		return membership.MoveMember{Peer: of,
			Address: rapid.SampledFrom([]string{"new:1", "new:2", member("a").Address}).Draw(t, "address")}
	}
	return membership.Exclude{
		Peer: of, From: rapid.SampledFrom([]membership.Exclusion{membership.FromLeading, membership.FromVoting}).Draw(t,
			"from"),
		On: rapid.Bool().Draw(t, "on"), Force: rapid.IntRange(0, 2).Draw(t, "force") == 0,
	}
}
