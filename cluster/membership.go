package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore"
)

// Values of promotion (docs/design.md#membership).
const (
	reconcileEvery = 500 * time.Millisecond
	changeLimit    = 5 * time.Second // one membership change
	// stableFor is how long a joiner must have kept up before it votes: a
	// voter that falls behind at once would cost the cluster its margin.
	stableFor = 2 * time.Second
	// keepsUp is how many entries behind still counts as caught up, as of the
	// newest renewal of the session: comparing with the log as it is now would
	// keep a joiner out for as long as the cluster is busy.
	keepsUp = 1024
)

// Configuration is the raft configuration as its leader changes it.
type Configuration interface {
	Servers() []raftstore.Server
	Changed() (fsm.View, <-chan struct{})
	Changer
}

// Changer makes one change of the raft configuration. Adding a server that is
// there changes its address.
type Changer interface {
	AddNonvoter(ctx context.Context, id, address string) error
	AddVoter(ctx context.Context, id, address string) error
	Demote(ctx context.Context, id string) error
	Remove(ctx context.Context, id string) error
}

// Membership is a leader's duty: it makes the raft configuration equal to the members
// in the log. Joining and leaving change the log alone, so a leader that dies
// half-way leaves nothing half-done: the next one continues.
type Membership struct {
	conf Configuration
	self string
	log  *slog.Logger
	// failing logs what fails at each look.
	failing *slog.Logger
	// since is when each non-voter was first seen caught up in this leadership.
	since map[string]time.Time
}

// NewMembership returns the duty of the peer with this server ID.
func NewMembership(conf Configuration, self string, log *slog.Logger) *Membership {
	return &Membership{conf: conf, self: self, log: log, failing: logs.Limit(log)}
}

// Run works until ctx, the leadership, ends. A change that fails is tried again. A former
// member is removed as soon as the log says so: it may be gone for good the next moment, and a
// leader that counts on its vote has to do it before it steps down for want of it.
func (m *Membership) Run(ctx context.Context) error {
	m.since = make(map[string]time.Time)
	due := make(chan struct{})
	var rounds sync.WaitGroup
	defer rounds.Wait()
	rounds.Go(func() {
		for range pace.Every(ctx, reconcileEvery) {
			select {
			case due <- struct{}{}:
			case <-ctx.Done():
			}
		}
	})
	for failed := true; ; { // as if: the first change is made in the first round
		view, changed := m.conf.Changed() // before the look: what comes meanwhile is seen next
		if _, found := m.former(view); !found || failed {
			select {
			case <-due:
			case <-changed:
				continue
			case <-ctx.Done():
				return nil
			}
		}
		err := m.reconcile(ctx)
		if failed = err != nil; failed && ctx.Err() == nil {
			m.failing.Warn("change membership failed, retrying", "err", err)
		}
	}
}

// former returns a server of raft's configuration that is no member. The leader never
// removes itself: leaving transfers first.
func (m *Membership) former(view fsm.View) (srv raftstore.Server, found bool) {
	servers := m.conf.Servers()
	i := slices.IndexFunc(servers, func(srv raftstore.Server) bool {
		_, member := view.Member(srv.ID)
		return !member && srv.ID != m.self
	})
	if i < 0 {
		return srv, false
	}
	return servers[i], true
}

// reconcile makes at most one change: raft takes them one at a time anyway,
// and the next look sees its effect.
func (m *Membership) reconcile(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, changeLimit)
	defer cancel()
	view, _ := m.conf.Changed()
	if srv, found := m.former(view); found {
		m.log.Info("removing former member from raft", "peer_id", srv.ID)
		return m.conf.Remove(ctx, srv.ID)
	}
	servers := make(map[string]raftstore.Server)
	for _, srv := range m.conf.Servers() {
		servers[srv.ID] = srv
	}
	for _, member := range view.Members() {
		srv, known := servers[member.ID]
		address, observer := ServerAddress(member.ID, member.Address), view.MemberFlags(member.ID).Observer
		switch {
		case !known:
			m.log.Info("adding non-voter", "peer", member.Name, "peer_id", member.ID, "address", member.Address)
			return m.conf.AddNonvoter(ctx, member.ID, address)
		case srv.Address != address:
			m.log.Info("changing address of peer", "peer", member.Name, "from", srv.Address, "to", member.Address)
			return m.move(ctx, srv, address)
		case observer && srv.Voter && srv.ID != m.self: // the leader hands leadership on first
			m.log.Info("demoting observer to non-voter", "peer", member.Name)
			return m.conf.Demote(ctx, srv.ID)
		case !observer && !srv.Voter && m.stable(view, member.ID):
			m.log.Info("promoting to voter", "peer", member.Name)
			return m.conf.AddVoter(ctx, srv.ID, srv.Address)
		}
	}
	return nil
}

// move changes where a server is dialled, and nothing about its vote.
func (m *Membership) move(ctx context.Context, srv raftstore.Server, address string) error {
	if srv.Voter {
		return m.conf.AddVoter(ctx, srv.ID, address)
	}
	return m.conf.AddNonvoter(ctx, srv.ID, address)
}

// stable says whether a non-voter has a session and has kept up for stableFor.
func (m *Membership) stable(view fsm.View, id string) bool {
	s, ok := view.SessionOf(id)
	if !ok || s.Behind > keepsUp {
		delete(m.since, id)
		return false
	}
	at, seen := m.since[id]
	if !seen {
		m.since[id] = time.Now()
		return false
	}
	return time.Since(at) >= stableFor
}

// ServerAddress is how a server is written in the raft configuration: the
// dialer checks the ID, so that a new peer at an old address cannot answer for
// the old one.
func ServerAddress(id, hostport string) string { return fmt.Sprintf("%s@%s", id, hostport) }
