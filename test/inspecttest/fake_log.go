package inspecttest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// fakeLog is a cluster's log without raft: what is written is applied at once.
// Cluster time is the bubble's, and sessions live for as long as their fakeSession is
// taken. It implements Log.
type fakeLog struct {
	t     testing.TB
	began time.Time

	mu       sync.Mutex
	state    *fsm.State
	index    uint64
	shown    fsm.View      // by Log; older than the state while frozen
	changed  chan struct{} // closed and replaced when shown is
	frozen   bool
	unread   error // what Read answers, nil for a view
	reads    int
	sessions []*FakeSession
	Written  []fsm.Command
	// Meets is asked before a command is written; an error keeps it from that.
	Meets func(c fsm.Command) error
	// Late is how long the answer of a written command takes.
	Late func(c fsm.Command) time.Duration
}

func newFakeLog(t testing.TB) *fakeLog {
	t.Helper()
	state, err := fsm.Founded(fsm.Found{
		ClusterID: "5f0c1f3e-0000-4000-8000-000000000001",
		CACert:    []byte("-----BEGIN X-----"), CAKey: []byte("-----BEGIN X-----"), GossipKey: make([]byte, 32),
		Member: membership.Member{ID: "id-h1", Name: "h1", Address: "h1:7350", Version: fsm.Version},
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &fakeLog{
		t: t, began: time.Now(), state: state, index: 1, shown: state.View(), changed: make(chan struct{}),
		Meets: func(fsm.Command) error { return nil },
		Late:  func(fsm.Command) time.Duration { return time.Millisecond }, // 0 would let a loop stop the clock
	}
}

// Read implements Log.
func (b *fakeLog) Read(context.Context) (fsm.View, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads++
	return b.state.View(), b.unread
}

// Leaderless makes Read fail, or work again with nil.
func (b *fakeLog) Leaderless(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unread = err
}

// View implements Log.
func (b *fakeLog) View() fsm.View {
	v, _ := b.Changed()
	return v
}

// Changed implements Log.
func (b *fakeLog) Changed() (fsm.View, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shown, b.changed
}

// Truth is the state whatever is shown of it.
func (b *fakeLog) Truth() fsm.View {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state.View()
}

// Freeze makes the log show nothing new, as on a follower that lags; or all. It
// returns which of them it did before.
func (b *fakeLog) Freeze(on bool) (was bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, b.frozen = b.frozen, on
	b.publish()
	return was
}

func (b *fakeLog) publish() {
	if b.frozen {
		return
	}
	b.shown = b.state.View()
	close(b.changed)
	b.changed = make(chan struct{})
}

// tick lets cluster time go on and renews the sessions.
func (b *fakeLog) tick() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.renew()
	b.publish()
}

func (b *fakeLog) renew() {
	for _, s := range b.sessions {
		if !s.left && b.apply(fsm.Header{}, membership.RenewSession{Session: s.id}).Code == fsm.OK {
			s.renewed = time.Now()
		}
	}
}

func (b *fakeLog) apply(h fsm.Header, c fsm.Command) fsm.Result {
	h.Time, h.WallMillis = fsm.Time(time.Since(b.began)), time.Now().UnixMilli()
	data, err := fsm.Encode(h, c)
	if err != nil {
		b.t.Errorf("encode %v: %v", fsm.KindOf(c), err)
		return fsm.Result{Code: fsm.Invalid, Message: err.Error()}
	}
	b.index++
	res := b.state.Apply(fsm.Entry{Index: b.index, Term: 1, Data: data})
	_, renewal := c.(membership.RenewSession)
	if v := b.state.View(); !renewal && v.Nodes() < 100 { // the check looks at all of them
		if err := v.Check(); err != nil {
			b.t.Errorf("after %v: %v", fsm.KindOf(c), err)
		}
	}
	return res
}

// Write commits a command.
func (b *fakeLog) Write(h fsm.Header, c fsm.Command) (fsm.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.Meets(c); err != nil {
		return fsm.Result{}, err
	}
	b.renew()
	b.Written = append(b.Written, c)
	res := b.apply(h, c)
	b.publish()
	return res, nil
}

// Must writes a command that has to succeed.
func (b *fakeLog) Must(c fsm.Command) fsm.Result {
	b.t.Helper()
	res, err := b.Write(fsm.Header{}, c)
	if err == nil {
		err = res.Err()
	}
	if err != nil {
		b.t.Fatalf("%T: %v", c, err)
	}
	return res
}

// Count returns how many commands were written that look like it.
func (b *fakeLog) Count(like func(fsm.Command) bool) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.Written {
		if like(c) {
			n++
		}
	}
	return n
}

// FakeSession is one peer's session. It implements Session and Doer.
type FakeSession struct {
	raftLog *fakeLog
	// All guarded by the log's mutex:
	id      fencing.Token
	renewed time.Time
	left    bool // it is not renewed any more
}

// NewSession makes a peer a member, "id-" and its name, and opens its session.
func (b *fakeLog) NewSession(name string) *FakeSession {
	b.t.Helper()
	id := "id-" + name
	b.Must(membership.PutMember{
		Member: membership.Member{ID: id, Name: name, Address: name + ":7350", Version: fsm.Version}})
	s := &FakeSession{raftLog: b}
	s.Open(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sessions = append(b.sessions, s)
	return s
}

// Open opens another session of the peer.
func (s *FakeSession) Open(id string) {
	s.raftLog.t.Helper()
	res := s.raftLog.Must(membership.OpenSession{Peer: id, Boot: fmt.Sprint(time.Now().UnixNano()), Version: fsm.Version})
	s.raftLog.mu.Lock()
	defer s.raftLog.mu.Unlock()
	s.id, s.renewed, s.left = res.Token, time.Now(), false
}

// Leave stops the renewals; the session ends by its ttl.
func (s *FakeSession) Leave() {
	s.raftLog.mu.Lock()
	defer s.raftLog.mu.Unlock()
	s.left = true
}

// Back renews the session again.
func (s *FakeSession) Back() {
	s.raftLog.mu.Lock()
	s.left = false
	s.raftLog.mu.Unlock()
	s.raftLog.tick()
}

// ID implements Session.
func (s *FakeSession) ID() fencing.Token {
	s.raftLog.mu.Lock()
	defer s.raftLog.mu.Unlock()
	return s.id
}

// Deadline implements Session.
func (s *FakeSession) Deadline() time.Time {
	s.raftLog.mu.Lock()
	defer s.raftLog.mu.Unlock()
	return s.renewed.Add(membership.SessionTTL - 3*time.Second)
}

// DoIn implements Session.
func (s *FakeSession) DoIn(ctx context.Context, session fencing.Token, c fsm.Command) (fsm.Result, error) {
	switch {
	case ctx.Err() != nil:
		return fsm.Result{}, ctx.Err()
	case s.ID() != session:
		return fsm.Result{}, fsm.SessionEnded
	}
	res, err := s.raftLog.Write(fsm.Header{Session: session}, c)
	if err == nil && res.Code == fsm.SessionEnded {
		return fsm.Result{}, fsm.SessionEnded
	}
	select {
	case <-time.After(s.raftLog.Late(c)): // in a bubble
		return res, err
	case <-ctx.Done():
		return fsm.Result{}, fmt.Errorf("%w: %w", logerr.ErrOutcomeUnknown, ctx.Err())
	}
}

// Do implements Doer.
func (s *FakeSession) Do(ctx context.Context, _ string, c fsm.Command) (fsm.Result, error) {
	return s.DoIn(ctx, s.ID(), c)
}
