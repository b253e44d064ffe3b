package app

import (
	"slices"

	"github.com/trivet-ha/trivet/fsm"
)

// nameOf returns the name of a member as a state knows it, else its server ID.
func nameOf(v fsm.View, id string) string {
	if m, ok := v.Member(id); ok {
		return m.Name
	}
	return id
}

// nameOf returns a peer's name for people. A peer that has heard no leader since it
// started has not applied its log, but the names stand there.
func (p *Peer) nameOf(v fsm.View, id string) string {
	if m, ok := v.Member(id); ok {
		return m.Name
	}
	if id == p.id.ID {
		return p.id.Name
	}
	if m, ok := p.recorded[id]; ok {
		return m.Name
	}
	return id
}

// others returns the other members, for what is asked of their hosts: those that the
// state knows, and those of raft's configuration that only the log on the disk names
// so far.
func (p *Peer) others(v fsm.View) []fsm.Member {
	out := slices.DeleteFunc(v.Members(), func(m fsm.Member) bool { return m.ID == p.id.ID })
	for _, srv := range p.core.Store.Servers() {
		m, ok := p.recorded[srv.ID]
		if _, member := v.Member(srv.ID); ok && !member && srv.ID != p.id.ID {
			out = append(out, m)
		}
	}
	return out
}
