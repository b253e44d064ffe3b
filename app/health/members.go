package health

import (
	"slices"
	"strings"

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
