package raftstore

import (
	"context"
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/raftstore/logerr"
)

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
