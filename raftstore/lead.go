package raftstore

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/raftstore/batcher"
	"github.com/trivet-ha/trivet/raftstore/logerr"
	"github.com/trivet-ha/trivet/raftstore/raftguard"
)

// errLeadershipEnded is the answer of a handle whose term is over.
var errLeadershipEnded = fmt.Errorf("%w: this leadership has ended", logerr.ErrNotLeader)

// Leadership is one tenure of this peer: the term of one committed Lead entry.
// Everything a leader proves or proposes goes through the handle, so that a
// peer that was re-elected cannot lend a new term's proof to old work.
type Leadership struct {
	store *Store
	term  uint64
	token fencing.Token
	led   fsm.Led

	// The log's clock: the value applied before Lead, and our monotonic
	// reading at that moment (docs/design.md#time).
	clock   fsm.Time
	clockAt time.Time

	ages  *raftguard.Ages // see Succeeds
	reads *batcher.Batcher[struct{}, uint64]
	ready atomic.Bool // reads may be served
	ended atomic.Bool
}

// Lead makes raft's leadership usable: a barrier, so that the state holds all
// that earlier leaders committed, then the Lead entry, whose token fences
// everything that follows. It fails when leadership ends meanwhile or ctx does.
// Meanwhile the voters are asked about earlier leaders: see Leadership.Succeeds.
func (s *Store) Lead(ctx context.Context, lead fsm.Lead) (_ *Leadership, err error) {
	ages := askVoters(s)
	defer func() {
		if err != nil {
			ages.End()
		}
	}()
	if s.raft.State() != raft.Leader {
		return nil, fmt.Errorf("barrier: %w", logerr.ErrNotLeader)
	}
	err = s.slots.awaitFuture(ctx, func() raft.Future { return s.raft.Barrier(enqueueTimeout(ctx)) })
	if err != nil {
		return nil, fmt.Errorf("barrier: %w", err)
	}
	l := &Leadership{store: s, clock: s.View().Now(), clockAt: time.Now()}
	l.ages = ages
	// Readers that wait together share one proof, which begins after the last has come.
	l.reads = batcher.New(batcher.Options[struct{}, uint64]{
		Send: l.answerReads, Context: s.life, Parallel: 1, MaxCalls: maxReaders, MaxWaiting: maxReaders,
	})
	res, err := l.append(ctx, fsm.Header{}, lead)
	if err = cmp.Or(err, res.Err(), res.Decode(&l.led)); err != nil {
		return nil, fmt.Errorf("commit lead: %w", err)
	}
	now := s.View().Leadership()
	if now.Token != res.Token {
		return nil, errLeadershipEnded // a later Lead is applied already
	}
	l.token, l.term = res.Token, now.Term
	if err := l.leads(); err != nil {
		return nil, err
	}
	s.leading.Store(l)
	return l, nil
}

// Token returns the fencing token of this leadership.
func (l *Leadership) Token() fencing.Token { return l.token }

// Led returns what was recorded open when this leadership began.
func (l *Leadership) Led() fsm.Led { return l.led }

// SetReady opens this peer for linearizable reads; the last act of establishing.
func (l *Leadership) SetReady() { l.ready.Store(true) }

// End takes the handle out of use: proposals and proofs through it fail from
// now on. It makes no raft call and does not block.
func (l *Leadership) End() {
	l.ended.Store(true)
	l.ages.End()
	l.store.leading.CompareAndSwap(l, nil)
}

// Propose commits a command under this leadership's token.
func (l *Leadership) Propose(ctx context.Context, c fsm.Command) (fsm.Result, error) {
	return l.append(ctx, fsm.Header{Token: l.token}, c)
}

// leads returns nil if raft leads in this handle's term at this moment. Terms
// only rise, so the state is read before the term: a leader seen first and our
// term seen after it can only have been the leader of our term.
func (l *Leadership) leads() error {
	if l.ended.Load() || l.store.raft.State() != raft.Leader || l.store.raft.CurrentTerm() != l.term {
		return errLeadershipEnded
	}
	return nil
}

// Confirm proves that no later leader was elected before t0: a majority of the
// voters acknowledged, in this handle's term, an AppendEntries that was sent
// after t0, and this peer still leads in that term afterwards (docs/design.md#proof).
// Its last step is the acknowledgement of this peer itself, which passes its gate as those
// of the others have passed theirs.
// VerifyLeader proves less: it counts answers to heartbeats that were sent
// before the call, and those of non-voters. t0 is read from time.Now before
// the call.
func (l *Leadership) Confirm(ctx context.Context, t0 time.Time) error {
	mark := l.store.net.acks.Mark()
	for {
		if err := l.leads(); err != nil {
			return err
		}
		others, need := l.quorum()
		got, changed := l.store.net.acks.Count(others, l.term, t0, mark)
		if got >= need {
			return l.acknowledge()
		}
		select {
		case l.store.pulse <- struct{}{}:
		default: // one is asked for already
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("confirm leadership: %d of %d acknowledgements: %w", got, need, context.Cause(ctx))
		}
	}
}

// acknowledge is this peer's own acknowledgement, at the end of a proof.
func (l *Leadership) acknowledge() error {
	if err := l.leads(); err != nil {
		return err
	}
	if err := l.store.gate.Pass(l.term); err != nil {
		return fmt.Errorf("%w: %w", errLeadershipEnded, err)
	}
	return nil
}

// quorum returns the other voters of the latest configuration and how many of
// them make a majority together with this peer, which counts only as a voter.
func (l *Leadership) quorum() (others []raft.ServerID, need int) {
	voters := 0
	self := 0
	for _, srv := range l.store.raft.GetConfiguration().Configuration().Servers {
		if srv.Suffrage != raft.Voter {
			continue
		}
		voters++
		if srv.ID == raft.ServerID(l.store.opts.ID) {
			self = 1
			continue
		}
		others = append(others, srv.ID)
	}
	return others, voters/2 + 1 - self
}

// heartbeats asks raft for heartbeats at once, whenever a proof waits for one,
// instead of at the next interval. Requests meanwhile are merged into one.
// VerifyLeader's verdict proves too little to be used: see Confirm.
func (s *Store) heartbeats() {
	for {
		select {
		case <-s.pulse:
		case <-s.life.Done():
			return
		}
		if err := s.slots.awaitFuture(s.life, func() raft.Future { return s.raft.VerifyLeader() }); err != nil {
			s.opts.Logger.Debug("request immediate heartbeats failed", "err", err)
		}
	}
}
