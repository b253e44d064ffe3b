package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore"
)

// followEvery is how often a verb looks whether raft has followed the members.
const followEvery = 50 * time.Millisecond

// member returns the one with this name or server ID, this peer for "".
func (p *Peer) member(nameOrID string) (fsm.Member, error) {
	if nameOrID == "" {
		nameOrID = p.id.ID
	}
	return memberCalled(p.core.Store.View(), nameOrID)
}

// Exclude implements admin.Membership.
func (p *Peer) Exclude(ctx context.Context, peer string, from fsm.Exclusion, on, force bool) error {
	m, err := p.member(peer)
	if err != nil {
		return err
	}
	if on && from == fsm.FromVoting && !force {
		if err := p.strands(ctx, m.ID); err != nil {
			return err
		}
	}
	if err := p.exclude(ctx, fsm.Exclude{Peer: m.ID, From: from, On: on, Force: force}); err != nil {
		return err
	}
	if force {
		return nil // nobody may be there to follow
	}
	return p.awaitMembership(ctx, func() bool { return p.followed(m.ID, from, on) })
}

// exclude commits the decision. That this peer's own maintenance is over counts
// here at once: where every voter that lives is in maintenance nobody leads, and
// its end can be in the log only when this peer does.
func (p *Peer) exclude(ctx context.Context, c fsm.Exclude) error {
	lifted := c.From == fsm.FromLeading && !c.On && c.Peer == p.id.ID
	if lifted {
		p.core.Fitness.Lift()
	}
	for {
		res, err := p.do(ctx, c)
		if err == nil {
			return res.Err()
		}
		waits := errors.Is(err, raftstore.ErrNoLeader) || errors.Is(err, raftstore.ErrNotLeader) || errors.Is(err, cluster.ErrNoSession)
		if !lifted || !waits || ctx.Err() != nil {
			return err
		}
	}
}

// followed says whether leadership and votes are as was decided.
func (p *Peer) followed(id string, from fsm.Exclusion, on bool) bool {
	if from == fsm.FromLeading {
		l, known := p.core.Store.Leader()
		return !on || known && l.ID != id
	}
	for _, srv := range p.core.Store.Servers() {
		if srv.ID == id {
			return srv.Voter == !on
		}
	}
	return false
}

// awaitMembership waits until raft has followed. What this peer sees of raft's
// configuration need not be committed: whoever leads next may not know of it, and a
// vote that an operator counts on would not be there.
func (p *Peer) awaitMembership(ctx context.Context, done func() bool) error {
	for !done() || !p.settled(ctx) || !done() {
		select {
		case <-time.After(followEvery):
		case <-ctx.Done():
			return fmt.Errorf("%w: it is decided, raft has yet to follow; see 'trivet peers'", raftstore.ErrOutcomeUnknown)
		}
	}
	return nil
}

// settled reports whether what this peer saw of raft's configuration before is
// committed, or is not seen any more: an entry that came later is applied here.
func (p *Peer) settled(ctx context.Context) bool {
	if _, err := p.do(ctx, fsm.Probe{}); err != nil {
		return false // nobody leads, or nobody follows: that is what is waited for
	}
	_, err := p.core.Store.Read(ctx)
	return err == nil
}

// Move implements admin.Membership.
func (p *Peer) Move(ctx context.Context, peer string, to admin.Address) error {
	m, err := p.member(peer)
	if err != nil {
		return err
	}
	c := fsm.MoveMember{Peer: m.ID, Address: to.Cluster, Gossip: to.Gossip, API: to.API}
	if err := c.Validate(); err != nil {
		return &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: err.Error(), Hint: "write HOST:PORT, as the other peers dial it"}
	}
	res, err := p.do(ctx, c)
	if err == nil {
		err = res.Err()
	}
	if err != nil {
		return err
	}
	want := cluster.ServerAddress(m.ID, to.Cluster)
	return p.awaitMembership(ctx, func() bool {
		for _, srv := range p.core.Store.Servers() {
			if srv.ID == m.ID {
				return srv.Address == want
			}
		}
		return false
	})
}

// Dead implements admin.Membership.
func (p *Peer) Dead(ctx context.Context, peer string) error {
	m, err := p.member(peer)
	if err != nil {
		return err
	}
	alive := ""
	switch v := p.core.Store.View(); {
	case m.ID == p.id.ID:
		alive = "it is the peer you are talking to"
	case len(p.silent(ctx, []fsm.Member{m})) == 0:
		alive = "it answers at " + m.Address
	default:
		if s, ok := v.SessionOf(m.ID); ok {
			alive = fmt.Sprintf("its session in the log lives for up to %v more", s.Expires.Sub(v.Now()).Round(time.Second))
		}
	}
	if alive == "" {
		return nil
	}
	return &api.Error{Status: http.StatusConflict, Code: api.CodeConflict, Message: fmt.Sprintf("%s is not dead: %s", m.Name, alive),
		Hint: "on a peer that lives: 'trivet leave'; of one that just died the session ends within 10 s; --force replaces it all the same"}
}
