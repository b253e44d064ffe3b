package raftstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/raftstore/logerr"
	"github.com/trivet-ha/trivet/raftstore/raftguard"
)

// askVoters asks the voters, for the present term, how long ago they acknowledged a leader
// of an earlier one. It does not wait for them.
func askVoters(s *Store) *raftguard.Ages {
	voters := questions(s, s.Servers())
	ages := raftguard.NewAges(s.life, s.raft.CurrentTerm(), voters)
	if err := s.slots.takeSlot(); err != nil { // Close waits for the slot
		s.opts.Logger.Warn("ask the voters about earlier leaders failed: waiting in full", "err", err)
		ages.End()
		return ages
	}
	go func() {
		defer s.slots.free()
		ages.Ask()
	}()
	return ages
}

// questions returns one for each voter. This peer asks itself, if it is one.
func questions(s *Store, servers []Server) (voters []raftguard.Question) {
	for _, srv := range servers {
		ask := func(ctx context.Context, term uint64) (time.Duration, error) {
			return s.opts.Forward.Age(ctx, srv, term)
		}
		if srv.ID == s.opts.ID {
			ask = func(_ context.Context, term uint64) (time.Duration, error) { return s.ServeAge(term) }
		}
		if srv.Voter {
			voters = append(voters, ask)
		}
	}
	return voters
}

// voter is this peer as one that acknowledges leaders.
type voter struct{ gate *raftguard.Gate }

// ServeAge returns how long ago this peer acknowledged a leader of a term below this one,
// for the last time. The caller has authenticated who asks, a new leader. Errors:
// logerr.ErrBusy, if this peer is not in the term yet, or logerr.ErrNotLeader, if it is in a
// newer one.
func (v voter) ServeAge(term uint64) (time.Duration, error) {
	age, err := v.gate.Age(term)
	switch {
	case errors.Is(err, raftguard.ErrNotYet):
		err = fmt.Errorf("%w: %w", logerr.ErrBusy, err)
	case err != nil:
		err = fmt.Errorf("%w: %w", logerr.ErrNotLeader, err)
	}
	return age, err
}

// Succeeds returns a time at which or before which every proof by a leader of an earlier
// term had begun, by the clock of time.Now: what such a leader does on the strength of a
// proof ends a known time after it (docs/design.md#pxe-age). doorTerm and doorIndex are the term
// and the index of the entry by which one of them said that it does something. ok is false
// if that leader is no earlier one, if the configuration may have changed since, so that the
// majorities need not share a voter, or until a majority of the voters has answered: ask again.
func (l *Leadership) Succeeds(doorTerm, doorIndex uint64) (until time.Time, ok bool) {
	if doorTerm >= l.term || l.Configured() > doorIndex {
		return time.Time{}, false
	}
	return l.ages.Until(l.term)
}

// Configured returns the index of the newest change of the configuration that the log or a
// snapshot of this peer holds. It may be too great, and is never too small.
func (l *Leadership) Configured() uint64 { return l.store.log.Configured() }
