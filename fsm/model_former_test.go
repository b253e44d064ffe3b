package fsm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// modelFormer is a former member, naively. The doors of a model that began with
// any are not known until one is opened.
type modelFormer struct {
	address string
	heard   bool
	became  string
	key     byte
}

// beginsWithFormers gives the state, its twin and the model former members, as a
// founding does: the model's tokens have no base, so it is not Refound itself.
func (m *machine) beginsWithFormers(t *rapid.T) {
	formers := map[string]*modelFormer{"f1": {address: "new:1"}, "f2": {address: "f2.example:7350"}}
	for _, s := range []*State{m.state, m.twin} {
		d := *s.now
		for id, f := range formers {
			load(t, &d, 'X', membership.RemovedPeer{ID: id, Name: "host-" + id})
			load(t, &d, 'f', membership.FormerMember{ID: id, Name: "host-" + id, Address: f.address, Observer: id == "f2"})
		}
		doorsOf(d.txn()).Doubt(doors.Tables{})
		s.now = &d
	}
	for id := range formers {
		m.model.removed[id] = true
	}
	m.model.gated.former = formers
	for _, d := range []*modelDoor{&m.model.gated.pass, &m.model.gated.address} {
		d.unknown, d.wait = true, d.least
	}
}

// ofFormer draws a command about a former member.
func (m *machine) ofFormer(t *rapid.T) (Header, Command) {
	id := rapid.SampledFrom([]string{"f1", "f2", "a", "none"}).Draw(t, "former")
	n := rapid.IntRange(1, 3).Draw(t, "n")
	switch rapid.IntRange(0, 5).Draw(t, "act") {
	case 0:
		return Header{}, membership.RemoveMember{ID: id}
	case 1:
		return Header{}, membership.OpenSession{Peer: fmt.Sprint("n", n), Boot: "b", Version: Version}
	case 2:
		return Header{}, membership.RemoveMember{ID: fmt.Sprint("n", n), Force: true}
	case 3, 4:
		address := "f2.example:7350"
		if id == "f1" {
			address = "new:1"
		}
		joiner := membership.Member{ID: fmt.Sprint("n", n), Name: "host-" + id, Address: address, Version: Version}
		return Header{}, membership.Rejoin{Former: id, Member: joiner,
			Key: [32]byte{byte(rapid.IntRange(1, 2).Draw(t, "key"))}}
	}
	return Header{Token: m.model.lead}, membership.FormerHeard{ID: id, Running: rapid.IntRange(0, 3).Draw(t, "runs") == 0}
}

// former executes what is about a former member.
func (m *model) former(c Command) Code {
	switch c := c.(type) {
	case membership.FormerHeard:
		f := m.gated.former[c.ID]
		if m.header.Token == 0 {
			return Refused
		}
		if f == nil {
			return NotFound
		}
		if c.Running {
			m.unhears(f)
		} else {
			m.hears(f)
		}
	case membership.Rejoin:
		return m.rejoin(c)
	}
	return OK
}

func (m *model) rejoin(c membership.Rejoin) Code {
	f := m.gated.former[c.Former]
	switch {
	case f == nil:
		return Refused
	case f.became == c.Member.ID && f.key == c.Key[0]:
		m.hears(f)
		return OK
	case f.became != "":
		return Conflict
	case f.address != c.Member.Address:
		return Refused
	}
	for _, address := range m.flags.address {
		if address == f.address {
			return Conflict
		}
	}
	if m.removed[c.Member.ID] || m.members[c.Member.ID] != 0 {
		return Conflict
	}
	m.members[c.Member.ID] = c.Member.Version
	m.flags.address[c.Member.ID] = f.address
	m.flags.observer[c.Member.ID] = c.Former == "f2"
	m.hears(f)
	f.became, f.key = c.Member.ID, c.Key[0]
	return OK
}

// hears lets the wait for doors that are not known begin again.
func (m *model) hears(f *modelFormer) {
	if f.heard {
		return
	}
	f.heard = true
	for _, d := range []*modelDoor{&m.gated.pass, &m.gated.address} {
		if d.unknown {
			d.since = m.now
		}
	}
}

// unhears makes every door unknown that the present leadership has not open itself.
func (m *model) unhears(f *modelFormer) {
	f.heard = false
	for _, d := range []*modelDoor{&m.gated.pass, &m.gated.address} {
		if d.openBy == 0 || d.openBy != m.lead {
			d.openBy, d.peer, d.address, d.term, d.index, d.unknown, d.since = 0, "", "", 0, 0, true, 0
			d.wait = max(d.wait, d.least)
		}
	}
}

// drops forgets a former member, and reports whether there was one.
func (m *model) drops(id string) bool {
	f := m.gated.former[id]
	if f != nil {
		m.hears(f)
		delete(m.gated.former, id)
	}
	return f != nil
}

// dropsWhatBecame forgets the former member that rejoined as a member.
func (m *model) dropsWhatBecame(member string) {
	for id, f := range m.gated.former {
		if f.became == member {
			m.drops(id)
		}
	}
}

func (m *model) awaits() bool {
	for _, f := range m.gated.former {
		if !f.heard {
			return true
		}
	}
	return false
}

func (m *model) formerText() string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(m.gated.former)) {
		f := m.gated.former[id]
		fmt.Fprintf(&b, "former %s at %s, heard %v, became %q by %d\n", id, f.address, f.heard, f.became, f.key)
	}
	return b.String()
}

func viewFormerText(v View) string {
	var b strings.Builder
	for _, f := range v.FormerMembers() {
		fmt.Fprintf(&b, "former %s at %s, heard %v, became %q by %d\n", f.ID, f.Address, f.Heard, f.Became, f.Key[0])
	}
	return b.String()
}
