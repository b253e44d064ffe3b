package raftstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// enqueueLimit bounds how long a command waits for raft's main loop to take it.
const enqueueLimit = 5 * time.Second

func enqueueTimeout(ctx context.Context) time.Duration {
	if at, ok := ctx.Deadline(); ok {
		return max(min(time.Until(at), enqueueLimit), time.Millisecond)
	}
	return enqueueLimit
}

// Propose commits one command and returns what applying it gave. A follower
// asks the leader. h names session, request and client; time and token are
// filled in on the leader. Errors: logerr.ErrNotLeader, logerr.ErrNoLeader, logerr.ErrBusy (nothing
// was appended), logerr.ErrOutcomeUnknown, or a refusal of the command itself.
func (s *Store) Propose(ctx context.Context, h fsm.Header, c fsm.Command) (fsm.Result, error) {
	if l := s.leading.Load(); l != nil {
		return l.append(ctx, h, c)
	}
	// The leader refuses it too, but what it says of a refusal before the log
	// comes here as an outcome unknown.
	if refusal := s.View().Admits(c); refusal != nil {
		return fsm.Result{}, refusal
	}
	data, err := fsm.Encode(h, c)
	if err != nil {
		return fsm.Result{}, err
	}
	leader, err := s.Elsewhere()
	if err != nil {
		return fsm.Result{}, err
	}
	limited, stop := s.WhileLeads(ctx)
	defer stop()
	answer, err := s.opts.Forward.Propose(limited, leader, data)
	switch {
	case logerr.NotAppended(err): // no other error says that
		return fsm.Result{}, err
	case err != nil:
		return fsm.Result{}, fmt.Errorf("%w: %w", logerr.ErrOutcomeUnknown, err)
	}
	var res fsm.Result
	if err := cbor.Unmarshal(answer, &res); err != nil {
		return fsm.Result{}, fmt.Errorf("%w: the leader's answer: %v", logerr.ErrOutcomeUnknown, err)
	}
	return res, nil
}

// Elsewhere returns the leader, if it is another peer. Errors: logerr.ErrNoLeader, or
// logerr.ErrNotLeader where this peer is to ask itself.
func (s *Store) Elsewhere() (Server, error) {
	leader, ok := s.Leader()
	switch {
	case !ok:
		return leader, logerr.ErrNoLeader
	case leader.ID == s.opts.ID:
		return leader, fmt.Errorf("%w yet: it was elected and is still establishing", logerr.ErrNotLeader)
	default:
		return leader, nil
	}
}

// errReplaced ends a call to a former leader.
var errReplaced = errors.New("another peer leads now")

// WhileLeads returns a context that ends, with errReplaced as its cause, when
// this peer hears of another leader: the old one may be stopped or cut off
// rather than dead, so that its connection stays open and no answer ever comes,
// while a repeat would be taken at once. The caller calls stop.
func (s *Store) WhileLeads(ctx context.Context) (limited context.Context, stop func()) {
	limited, cancel := context.WithCancelCause(ctx)
	s.roles.mu.Lock()
	led := s.roles.ledBy
	s.roles.mu.Unlock()
	detach := context.AfterFunc(led, func() { cancel(errReplaced) })
	return limited, func() { detach(); cancel(nil) }
}

// ServeProposal commits what a follower forwarded and returns the encoded
// result. The caller has authenticated the follower. A token is not accepted
// from outside: a duty acts on the leader or not at all.
func (s *Store) ServeProposal(ctx context.Context, payload []byte) ([]byte, error) {
	h, c, err := fsm.Decode(payload)
	if err != nil {
		return nil, fmt.Errorf("forwarded command: %w", err)
	}
	l := s.leading.Load()
	if l == nil || !h.Token.IsZero() {
		return nil, logerr.ErrNotLeader
	}
	res, err := l.append(ctx, h, c)
	if err != nil {
		return nil, err
	}
	return cbor.Marshal(res)
}

// append stamps a command with the log's clock and waits for its result.
func (l *Leadership) append(ctx context.Context, h fsm.Header, c fsm.Command) (fsm.Result, error) {
	s := l.store
	if l.ended.Load() {
		return fsm.Result{}, errLeadershipEnded
	}
	if err := s.View().Admits(c); err != nil {
		return fsm.Result{}, err
	}
	h.Time, h.WallMillis = l.now(), s.opts.Wall().UnixMilli()
	data, err := fsm.Encode(h, c)
	if err != nil {
		return fsm.Result{}, err
	}
	var f raft.ApplyFuture
	err = s.slots.awaitFuture(ctx, func() raft.Future {
		f = s.raft.Apply(data, enqueueTimeout(ctx))
		return f
	})
	if err != nil {
		return fsm.Result{}, err
	}
	res, ok := f.Response().(fsm.Result)
	if !ok {
		return fsm.Result{}, fmt.Errorf("%w (raft gave no result)", logerr.ErrOutcomeUnknown)
	}
	return res, nil
}

// now is cluster time on the leader: what was applied at Lead plus our own
// monotonic time since. A follower that takes over can only be later.
func (l *Leadership) now() fsm.Time { return l.clock.Add(time.Since(l.clockAt)) }
