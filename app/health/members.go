package health

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore"
)

// Members are the peers of the cluster as this one knows them. Methods may be called
// concurrently.
type Members struct {
	Self     datadir.Identity
	Log      *raftstore.Store
	Recorded map[string]membership.Member // by server ID; of the log as it was at the start
	Contacts *cluster.Contacts
	Gossip   func() map[string]string // by server ID: the state of its gossip
}

// NameIn returns the name of a member as a state knows it, else its server ID.
func NameIn(v fsm.View, id string) string {
	if m, ok := v.Member(id); ok {
		return m.Name
	}
	return id
}

// Name returns a peer's name for people. A peer that has heard no leader since it
// started has not applied its log, but the names stand there.
func (c *Members) Name(v fsm.View, id string) string {
	if m, ok := v.Member(id); ok {
		return m.Name
	}
	if id == c.Self.ID {
		return c.Self.Name
	}
	if m, ok := c.Recorded[id]; ok {
		return m.Name
	}
	return id
}

// Others returns the other members, for questions about their hosts: those that the
// state knows, and those of raft's configuration that only the log on the disk names
// so far.
func (c *Members) Others(v fsm.View) []membership.Member {
	out := slices.DeleteFunc(v.Members(), func(m membership.Member) bool { return m.ID == c.Self.ID })
	for _, srv := range c.Log.Servers() {
		m, ok := c.Recorded[srv.ID]
		if _, member := v.Member(srv.ID); ok && !member && srv.ID != c.Self.ID {
			out = append(out, m)
		}
	}
	return out
}

// Role is the role of this peer's raft, in lower case.
func (c *Members) Role() string { return strings.ToLower(c.Log.Stats().Role) }

// ContactView is who is heard at a moment, with the names of the members.
type ContactView struct {
	cluster.Hearing
	view fsm.View
}

// Hearing returns who is heard at this moment.
func (c *Members) Hearing(v fsm.View) ContactView { return ContactView{c.Contacts.Hearing(), v} }

// live reports whether a peer counts as live.
func (h ContactView) live(id string) bool { return h.Of(id).Live }

// contact shows how a peer is heard.
func (h ContactView) contact(id string, wall time.Time) api.Contact {
	heard := h.Of(id)
	out := api.Contact{Live: heard.Live, ContactMS: heard.Silent.Milliseconds(), NeverHeard: heard.Never,
		Unreachable: heard.Away}
	if !heard.Live && !heard.Never {
		out.SilentSince = api.TimeText(wall.Add(-heard.Silent))
	}
	return out
}

// Quorum counts votes.
func (c *Members) Quorum(h ContactView) api.Quorum {
	var q api.Quorum
	for _, srv := range c.Log.Servers() {
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

// Peers returns the servers of raft, and the members that are none yet, by name.
func (c *Members) Peers(h ContactView, wall time.Time) []api.Peer {
	v := h.view
	leading, _ := c.Log.Leader()
	gossip := c.Gossip()
	out := []api.Peer{}
	add := func(id, address string, voter bool) {
		heard := h.Of(id)
		row := api.Peer{
			ID: id, Name: c.Name(v, id), Address: address, Voter: voter, Leader: id == leading.ID, Self: id == c.Self.ID,
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
	for _, srv := range c.Log.Servers() {
		known[srv.ID] = true
		add(srv.ID, srv.Address, srv.Voter)
	}
	for _, m := range v.Members() {
		if !known[m.ID] {
			add(m.ID, cluster.ServerAddress(m.ID, m.Address), false)
		}
	}
	slices.SortStableFunc(out, func(a, b api.Peer) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	return out
}

// Stale is for how long this peer has heard of no leader.
func (c *Members) Stale() time.Duration {
	stats := c.Log.Stats()
	if _, ok := c.Log.Leader(); ok || stats.LastContact.IsZero() {
		return 0
	}
	return time.Since(stats.LastContact)
}
