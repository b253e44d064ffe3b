package raftstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
)

// Read returns a linearizable view: it holds every command that was
// acknowledged, anywhere, before the call. Readers that wait together share
// one proof. Errors: ErrNotLeader, ErrNoLeader, or the end of ctx.
func (s *Store) Read(ctx context.Context) (fsm.View, error) {
	index, err := s.readIndex(ctx)
	if err != nil {
		return fsm.View{}, err
	}
	return s.Wait(ctx, func(v fsm.View) bool { return v.Index() >= index })
}

// readIndex asks the leader, and the next one where that is replaced meanwhile.
func (s *Store) readIndex(ctx context.Context) (uint64, error) {
	for {
		if s.leading.Load() != nil {
			return s.ConfirmedIndex(ctx)
		}
		leader, err := s.Elsewhere()
		if err != nil {
			return 0, err
		}
		limited, stop := s.WhileLeads(ctx)
		index, err := s.opts.Forward.ReadIndex(limited, leader)
		replaced := errors.Is(context.Cause(limited), errReplaced)
		stop()
		if err == nil || !replaced {
			return index, err
		}
	}
}

// ConfirmedIndex returns an index that covers everything acknowledged before
// the call, proven to be the leader's. Only a leader that is ready answers.
func (s *Store) ConfirmedIndex(ctx context.Context) (uint64, error) {
	l := s.leading.Load()
	if l == nil || !l.ready.Load() {
		return 0, ErrNotLeader
	}
	return l.readers.join(ctx, l)
}

// readBatch is the proof that readers who came together wait for.
type readBatch struct {
	done  chan struct{} // closed when index and err are set
	index uint64
	err   error
}

// readQueue lets one proof serve many readers. A reader may only join a proof
// that has not begun: a later one could miss what was acknowledged meanwhile.
type readQueue struct {
	mu      sync.Mutex
	waiting *readBatch // gathers readers while a proof is under way
	busy    bool
}

// proofLimit bounds one shared proof, whose readers have deadlines of their own.
const proofLimit = 5 * time.Second

func (q *readQueue) join(ctx context.Context, l *Leadership) (uint64, error) {
	b, err := q.enter(l)
	if err != nil {
		return 0, err
	}
	select {
	case <-b.done:
		return b.index, b.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// enter adds a reader to the batch that waits, and starts proving if nobody does.
func (q *readQueue) enter(l *Leadership) (*readBatch, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.busy {
		if err := l.store.slot(); err != nil {
			return nil, err
		}
		q.busy = true
		go q.run(l)
	}
	if q.waiting == nil {
		q.waiting = &readBatch{done: make(chan struct{})}
	}
	return q.waiting, nil
}

// run proves batch after batch until nobody waits; Close waits for its slot.
func (q *readQueue) run(l *Leadership) {
	defer l.store.free()
	for {
		q.mu.Lock()
		b := q.waiting
		q.waiting = nil
		q.busy = b != nil
		q.mu.Unlock()
		if b == nil {
			return
		}
		b.index, b.err = l.confirmIndex()
		close(b.done)
	}
}

func (l *Leadership) confirmIndex() (uint64, error) {
	t0 := time.Now()
	index := l.store.decided()
	ctx, cancel := context.WithTimeout(l.store.life, proofLimit)
	defer cancel()
	return index, l.Confirm(ctx, t0)
}

// decided returns an index that covers every command that any peer may have applied
// when it is called, on a leader that is ready. What was acknowledged was applied
// here before; but a follower hears from this leader what is committed, and may have
// shown it to somebody already while this peer is busy applying it. The commit index
// may be that of an entry which no machine sees, and would then be waited for in vain:
// the newest command comes before it, or another one is on its way.
func (s *Store) decided() uint64 { return min(s.raft.CommitIndex(), s.log.command.Load()) }
