package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// followEvery is how often a verb looks whether raft has followed the members.
const followEvery = 50 * time.Millisecond

// Exclude relieves a peer of leading (maintenance) or of voting, or gives it back; it
// returns when raft has followed.
func (m *Membership) Exclude(ctx context.Context, peer string, from membership.Exclusion, on, force bool) error {
	of, err := m.member(peer)
	if err != nil {
		return err
	}
	if on && from == membership.FromVoting && !force {
		if err := m.strands(ctx, of.ID); err != nil {
			return err
		}
	}
	// That this peer's own maintenance is over counts here at once: where every voter that lives is in
	// maintenance no peer leads, and its end can be in the log only when this peer does.
	lifted := from == membership.FromLeading && !on && of.ID == m.Self.ID && !isDry(ctx)
	if lifted {
		m.Lift()
	}
	for {
		err := m.commit(ctx, membership.Exclude{Peer: of.ID, From: from, On: on, Force: force})
		if err == nil {
			break
		}
		waits := errors.Is(err, logerr.ErrNoLeader) || errors.Is(err, logerr.ErrNotLeader) ||
			errors.Is(err, cluster.ErrNoSession)
		if !lifted || !waits || ctx.Err() != nil {
			return err
		}
	}
	if force {
		return nil // there may be no peer to follow
	}
	return m.awaitMembership(ctx, func() bool { return m.followed(of.ID, from, on) })
}

// followed says whether leadership and votes are as was decided.
func (m *Membership) followed(id string, from membership.Exclusion, on bool) bool {
	if from == membership.FromLeading {
		l, known := m.Store.Leader()
		return !on || known && l.ID != id
	}
	as := func(srv raftstore.Server) bool { return srv.ID == id && srv.Voter == !on }
	return slices.ContainsFunc(m.Store.Servers(), as)
}

// awaitMembership waits until raft has followed. What this peer sees of raft's
// configuration need not be committed: the next leader may not know of it, and a
// vote that an operator counts on would not be there.
func (m *Membership) awaitMembership(ctx context.Context, done func() bool) error {
	for !done() || !m.settled(ctx) || !done() {
		if !pace.Wait(ctx, followEvery) {
			return fmt.Errorf("%w: it is decided, raft has yet to follow; see 'trivet peers'", logerr.ErrOutcomeUnknown)
		}
	}
	return nil
}

// settled reports whether what this peer saw of raft's configuration before is
// committed, or is not seen any more: an entry that came later is applied here.
func (m *Membership) settled(ctx context.Context) bool {
	if err := m.commit(ctx, fsm.Probe{}); err != nil {
		return false // no peer leads, or none follows: that is what is waited for
	}
	_, err := m.Store.Read(ctx)
	return err == nil
}

// Move changes where a peer is dialled.
func (m *Membership) Move(ctx context.Context, peer string, to Address) error {
	of, err := m.member(peer)
	if err != nil {
		return err
	}
	c := membership.MoveMember{Peer: of.ID, Address: to.Cluster, Gossip: to.Gossip, API: to.API}
	if err := c.Validate(); err != nil {
		return &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: err.Error(),
			Hint: "write HOST:PORT, as the other peers dial it"}
	}
	if err := m.commit(ctx, c); err != nil {
		return err
	}
	want := cluster.ServerAddress(of.ID, to.Cluster)
	there := func(srv raftstore.Server) bool { return srv.ID == of.ID && srv.Address == want }
	return m.awaitMembership(ctx, func() bool { return slices.ContainsFunc(m.Store.Servers(), there) })
}
