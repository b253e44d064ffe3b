package fsm

import (
	"fmt"

	"pgregory.net/rapid"
)

// modelStandings is what was decided of members, naively.
type modelStandings struct {
	observer, maintenance map[string]bool
	address               map[string]string
}

func newModelStandings() modelStandings {
	return modelStandings{observer: map[string]bool{}, maintenance: map[string]bool{}, address: map[string]string{"a": member("a").Address}}
}

func (s modelStandings) forget(id string) {
	delete(s.observer, id)
	delete(s.maintenance, id)
	delete(s.address, id)
}

func (s modelStandings) text(id string) string {
	return fmt.Sprintf("observer %v, maintenance %v", s.observer[id], s.maintenance[id])
}

func standingText(s Standing) string {
	return fmt.Sprintf("observer %v, maintenance %v", s.Observer, s.Maintenance)
}

// votersWithout counts the voters other than one, those that live, and those
// that may lead.
func (m *model) votersWithout(id string) (voters, live, candidates int) {
	for other := range m.members {
		if other == id || m.standing.observer[other] {
			continue
		}
		voters++
		for _, s := range m.sessions {
			if s.peer != other {
				continue
			}
			live++
			if !s.refuses && !m.standing.maintenance[other] {
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
	case MoveMember:
		if m.members[c.Peer] == 0 {
			return NotFound
		}
		for id, address := range m.standing.address {
			if id != c.Peer && address == c.Address {
				return Conflict
			}
		}
		m.standing.address[c.Peer] = c.Address
	case Exempt:
		if m.members[c.Peer] == 0 {
			return NotFound
		}
		of := m.standing.maintenance
		if c.From == FromVoting {
			of = m.standing.observer
		}
		if of[c.Peer] != c.On && m.forbids(c) {
			return Refused
		}
		of[c.Peer] = c.On
	}
	return OK
}

func (m *model) forbids(c Exempt) bool {
	voters, live, candidates := m.votersWithout(c.Peer)
	switch {
	case c.From == FromVoting && c.On:
		return voters == 0 || !c.Force && (2*live <= voters || candidates == 0)
	case c.From == FromVoting:
		return !c.Force && !m.lives(c.Peer)
	default:
		return c.On && !c.Force && !m.standing.observer[c.Peer] && candidates == 0
	}
}

// ofStanding draws what an operator may decide of a member.
func ofStanding(t *rapid.T) Command {
	of := peer(t)
	if rapid.IntRange(0, 3).Draw(t, "move") == 0 {
		return MoveMember{Peer: of, Address: rapid.SampledFrom([]string{"new:1", "new:2", member("a").Address}).Draw(t, "address")}
	}
	return Exempt{
		Peer: of, From: rapid.SampledFrom([]Exemption{FromLeading, FromVoting}).Draw(t, "from"),
		On: rapid.Bool().Draw(t, "on"), Force: rapid.IntRange(0, 2).Draw(t, "force") == 0,
	}
}
