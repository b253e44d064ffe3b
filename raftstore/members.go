package raftstore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// Servers returns the latest raft configuration this peer knows: on the leader
// the truth, elsewhere what its log holds.
func (s *Store) Servers() []Server {
	var out []Server
	for _, srv := range s.raft.GetConfiguration().Configuration().Servers {
		out = append(out, Server{ID: string(srv.ID), Address: string(srv.Address), Voter: srv.Suffrage == raft.Voter})
	}
	return out
}

// AddNonvoter adds a server that receives the log and has no vote. Like the
// other changes it is made on the leader, else logerr.ErrNotLeader.
func (s *Store) AddNonvoter(ctx context.Context, id, address string) error {
	return s.change(ctx, func() raft.Future {
		return s.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(address), 0, enqueueTimeout(ctx))
	})
}

// AddVoter gives a server its vote. Of a server that has one it changes the
// address, as AddNonvoter does of one that has none.
func (s *Store) AddVoter(ctx context.Context, id, address string) error {
	return s.change(ctx, func() raft.Future {
		return s.raft.AddVoter(raft.ServerID(id), raft.ServerAddress(address), 0, enqueueTimeout(ctx))
	})
}

// Demote takes a server's vote and lets it follow on. A leader is not asked to
// demote itself: it would step down at once, also where no fit voter could take
// over.
func (s *Store) Demote(ctx context.Context, id string) error {
	return s.change(ctx, func() raft.Future {
		return s.raft.DemoteVoter(raft.ServerID(id), 0, enqueueTimeout(ctx))
	})
}

// Remove takes a server out of the configuration. A leader that removes itself
// steps down; its caller transfers leadership first instead.
func (s *Store) Remove(ctx context.Context, id string) error {
	return s.change(ctx, func() raft.Future {
		return s.raft.RemoveServer(raft.ServerID(id), 0, enqueueTimeout(ctx))
	})
}

// change makes one membership change, then commits a probe: raft takes no
// snapshot before a command was applied after the configuration entry.
func (s *Store) change(ctx context.Context, start func() raft.Future) error {
	l := s.leading.Load()
	if l == nil {
		return logerr.ErrNotLeader
	}
	if err := s.slots.awaitFuture(ctx, start); err != nil {
		return err
	}
	res, err := l.Propose(ctx, fsm.Probe{})
	return cmp.Or(err, res.Err())
}

// MayTransfer returns why leadership cannot be handed to a server now. One that does not
// answer would have raft refuse all writes until its message to it has timed out, after 10 s.
func (s *Store) MayTransfer(to Server) error {
	id := raft.ServerID(to.ID)
	if s.net.acks.SilentFor(id) > 2*s.opts.Timing.Heartbeat {
		return fmt.Errorf("transfer leadership to %s: it does not answer", to.ID)
	}
	if err := s.net.transfers.Check(s.raft.CurrentTerm(), id); err != nil {
		return fmt.Errorf("transfer leadership to %s: %w", to.ID, err)
	}
	return nil
}

// Transfer hands leadership to the named server, if MayTransfer allows it. It returns when
// raft has sent the target there; whether it won shows in Role.
func (s *Store) Transfer(ctx context.Context, to Server) error {
	if err := s.MayTransfer(to); err != nil {
		return err
	}
	defer s.net.idle.Hurry()()
	term, id := s.raft.CurrentTerm(), raft.ServerID(to.ID)
	if err := s.slots.awaitFuture(ctx, func() raft.Future {
		return s.net.transfers.Begun(term, id, s.raft.LeadershipTransferToServer(id, raft.ServerAddress(to.Address)))
	}); err != nil {
		return fmt.Errorf("transfer leadership to %s: %w", to.ID, err)
	}
	return nil
}

// Progress is how well one server follows this leader.
type Progress struct {
	Server
	// Matched is the greatest index up to which its log was seen to be equal to
	// this peer's in this term, 0 before any was. Of this peer it is all.
	Matched uint64
	// Silent is the age of the newest request that it acknowledged.
	Silent time.Duration
}

// Progress returns how well each server of the configuration follows, this
// peer included, and the last index of the log here. Only a leader knows:
// logerr.ErrNotLeader. That it leads still is for Confirm to prove.
func (s *Store) Progress() (all []Progress, last uint64, err error) {
	l := s.leading.Load()
	if l == nil {
		return nil, 0, logerr.ErrNotLeader
	}
	last = s.raft.LastIndex()
	for _, srv := range s.Servers() {
		p := Progress{Server: srv, Matched: last}
		if srv.ID != s.opts.ID {
			p.Matched = s.net.acks.MatchedBy(raft.ServerID(srv.ID), l.term)
			p.Silent = s.net.acks.SilentFor(raft.ServerID(srv.ID))
		}
		all = append(all, p)
	}
	return all, last, nil
}

// Abdicate gives raft's leadership up without a successor: it sends nothing as a
// leader until raft has lost its lease, so that the others elect. For a leader that
// must not lead and has no voter to hand leadership to.
func (s *Store) Abdicate(ctx context.Context) {
	s.net.abdicating.Store(true)
	defer s.net.abdicating.Store(false)
	for {
		role, changed := s.Role()
		if !role.Leader {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
