package app

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
)

// contactView is who is heard at a moment, with the names of the members.
type contactView struct {
	cluster.Hearing
	view fsm.View
	self string // server ID
}

func (p *Peer) hearing(v fsm.View) contactView {
	return contactView{p.core.Contacts.Hearing(), v, p.id.ID}
}

// live reports whether a peer counts as live.
func (h contactView) live(id string) bool { return h.Of(id).Live }

// contact shows how a peer is heard.
func (h contactView) contact(id string, wall time.Time) api.Contact {
	heard := h.Of(id)
	out := api.Contact{Live: heard.Live, ContactMS: heard.Silent.Milliseconds(), NeverHeard: heard.Never, Unreachable: heard.Away}
	if !heard.Live && !heard.Never {
		out.SilentSince = api.TimeText(wall.Add(-heard.Silent))
	}
	return out
}

// quorum counts votes.
func (p *Peer) quorum(h contactView) api.Quorum {
	var q api.Quorum
	for _, srv := range p.core.Store.Servers() {
		if !srv.Voter {
			continue
		}
		q.Voters++
		if h.live(srv.ID) {
			q.Live++
		}
	}
	q.Need = q.Voters/2 + 1
	q.CanLose = max(q.Live-q.Need, 0)
	return q
}

// Peers implements api.Local.
func (p *Peer) Peers() []api.Peer { return p.peers(p.hearing(p.core.Store.View())) }

// peers returns the servers of raft, and the members that are none yet, by name.
func (p *Peer) peers(h contactView) []api.Peer {
	v, wall := h.view, p.opts.Wall()
	leading, _ := p.core.Store.Leader()
	gossip := p.gossip.States()
	out := []api.Peer{}
	add := func(id, address string, voter bool) {
		heard := h.Of(id)
		row := api.Peer{
			ID: id, Name: p.nameOf(v, id), Address: address, Voter: voter, Leader: id == leading.ID, Self: id == p.id.ID,
			Contact: h.contact(id, wall), Lag: -1, Gossip: cmp.Or(gossip[id], "unknown"),
		}
		if heard.Matched {
			row.Lag = int64(heard.Behind)
		}
		m, _ := v.Member(id)
		row.Version = m.Binary
		flags := v.MemberFlags(id)
		row.Observer, row.Maintenance = flags.Observer, flags.Maintenance
		if ses, ok := v.SessionOf(id); ok {
			row.Applied, row.SkewMS, row.Refuses = ses.Applied, ses.SkewMillis, ses.Refuses
		}
		out = append(out, row)
	}
	known := make(map[string]bool)
	for _, srv := range p.core.Store.Servers() {
		known[srv.ID] = true
		add(srv.ID, srv.Address, srv.Voter)
	}
	for _, m := range v.Members() {
		if !known[m.ID] {
			add(m.ID, cluster.ServerAddress(m.ID, m.Address), false)
		}
	}
	slices.SortFunc(out, func(a, b api.Peer) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID)) })
	return out
}
