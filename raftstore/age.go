package raftstore

import (
	"context"
	"time"

	"github.com/trivet-ha/trivet/fsm"
)

// Values of Age.
const (
	// youngEnough is the age from which the leader is asked before a peer answers from its
	// own state: peers that are asked all the time ask it once in this time.
	youngEnough = time.Second
	// ageLimit bounds that question, which a leader that was just lost does not answer.
	ageLimit = 250 * time.Millisecond
)

// Age returns how old a view of this peer's own may be: for how long there has been no
// linearizable read. That it hears its leader says nothing of it, since heartbeats come
// while its disk hangs, and messages that lay in a socket while the process was stopped
// look new. So where the newest read is more than a second ago and there is a leader,
// that one is asked, for a quarter of a second at most. False: there was no read since
// this process began, and nothing bounds the age.
func Age(ctx context.Context, s *Store) (age time.Duration, known bool) {
	if at := s.proven.Load(); at != nil && time.Since(*at) <= youngEnough {
		return time.Since(*at), true
	}
	if _, ok := s.Leader(); ok {
		limited, cancel := context.WithTimeout(ctx, ageLimit)
		defer cancel()
		_, _ = s.Read(limited) // one that fails proves nothing, and that shows below
	}
	at := s.proven.Load()
	if at == nil {
		return 0, false
	}
	return time.Since(*at), true
}

// Read returns a linearizable view: it holds every command that was
// acknowledged, anywhere, before the call. Readers that wait together share
// one proof. Errors: logerr.ErrNotLeader, logerr.ErrNoLeader, or the end of ctx.
func (s *Store) Read(ctx context.Context) (fsm.View, error) {
	began := time.Now()
	index, err := s.readIndex(ctx)
	if err != nil {
		return fsm.View{}, err
	}
	v, err := s.Wait(ctx, func(v fsm.View) bool { return v.Index() >= index })
	if err != nil {
		return v, err
	}
	for { // until this read's proof is noted, or another's that began later
		old := s.proven.Load()
		if old != nil && !began.After(*old) || s.proven.CompareAndSwap(old, &began) {
			return v, nil
		}
	}
}
