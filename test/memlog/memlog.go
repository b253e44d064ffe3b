// Package memlog is a log of one peer in memory, for tests of what stands on the
// replicated state: every command is committed at once, in the order of the calls.
package memlog

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// Log is the state and its clock: cluster time is the time since it was founded. It
// may be used concurrently.
type Log struct {
	t     testing.TB
	began time.Time

	mu      sync.Mutex
	state   *fsm.State
	changed chan struct{} // closed and replaced with each entry
	last    fsm.RequestID
	entries int
	fail    error
	lost    bool // first answers
}

// New returns a log with one member and a session that does not end.
func New(t testing.TB) *Log { return AtVersion(t, fsm.Version) }

// AtVersion is New with a member that knows a log version and none above it.
func AtVersion(t testing.TB, version int) *Log {
	t.Helper()
	member := membership.Member{ID: "a", Name: "h1", Address: "h1.example:7350", Gossip: "h1.example:7351",
		Version: version, Binary: "test"}
	state, err := fsm.Founded(fsm.Found{
		ClusterID: "6f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a10", CACert: []byte("-----BEGIN CERTIFICATE-----\ncert\n"),
		CAKey:     []byte("-----BEGIN PRIVATE KEY-----\nkey\n"),
		GossipKey: bytes.Repeat([]byte{1}, 32), Member: member,
		Join: membership.AddJoinToken{ID: "first", Hash: [32]byte{1}, TTL: time.Hour},
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &Log{t: t, began: time.Now(), state: state, changed: make(chan struct{})}
}

// Fail has every later command end with err, before it is committed; nil ends that.
func (l *Log) Fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = err
}

// Lose has the first answer to each later request of a client be lost, so that this
// peer asks again; false ends that.
func (l *Log) Lose(first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = first
}

// Entries counts the commands that were committed.
func (l *Log) Entries() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries
}

// Do commits a command, exactly once for each client's ID.
func (l *Log) Do(ctx context.Context, client string, c fsm.Command) (fsm.Result, error) {
	if err := ctx.Err(); err != nil {
		return fsm.Result{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return fsm.Result{}, l.fail
	}
	h := fsm.Header{Time: fsm.Time(time.Since(l.began))}
	if client != "" { // a request belongs to a session, and one that is opened now has not ended
		opened, err := l.commit(h, membership.OpenSession{Peer: "a", Boot: "boot", Version: fsm.Version, Binary: "test"})
		if err != nil {
			return fsm.Result{}, err
		}
		l.last = entry.NextRequestID(l.last, h.Time, [8]byte{})
		h.Session, h.Request, h.Client = opened.Token, l.last, client
	}
	l.entries++
	if l.lost && client != "" {
		if _, err := l.commit(h, c); err != nil {
			return fsm.Result{}, err
		}
	}
	return l.commit(h, c)
}

// DoAsLeader commits a command of a leader's duty: the only member leads first.
func (l *Log) DoAsLeader(c fsm.Command) (fsm.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := fsm.Header{Time: fsm.Time(time.Since(l.began)), Token: l.state.View().Leadership().Token}
	if h.Token.IsZero() {
		if res, err := l.commit(h, fsm.Lead{Peer: "a", Boot: "boot", Version: fsm.Version}); err != nil || res.Err() != nil {
			return res, err
		}
		h.Token = l.state.View().Leadership().Token
	}
	return l.commit(h, c)
}

func (l *Log) commit(h fsm.Header, c fsm.Command) (fsm.Result, error) {
	data, err := fsm.Encode(h, c)
	if err != nil {
		return fsm.Result{}, err
	}
	res := l.state.Apply(fsm.Entry{Index: l.state.View().Index() + 1, Term: 1, Data: data})
	if err := l.state.View().Check(); err != nil {
		l.t.Errorf("after %+v: %v", c, err)
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return res, nil
}

// View returns the state as it is.
func (l *Log) View() fsm.View {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.View()
}

// Read is View, unless commands fail.
func (l *Log) Read(context.Context) (fsm.View, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.View(), l.fail
}

// Changed returns the state as it is, and a channel that the next entry closes.
func (l *Log) Changed() (fsm.View, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.View(), l.changed
}

// Refound founds the cluster again; the last entries may not have been committed.
func (l *Log) Refound(uncommitted uint64) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.state.Refound(fsm.Refound{Index: l.state.View().Index() + 1, Uncommitted: uncommitted, Survivor: "a",
		UnixMillis: time.Now().UnixMilli(), NewIncarnation: true}); err != nil {
		l.t.Fatal(err)
	}
}

// Wait returns the first state that is as wanted.
func (l *Log) Wait(ctx context.Context, wanted func(fsm.View) bool) (fsm.View, error) {
	for {
		v, changed := l.Changed()
		if wanted(v) {
			return v, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return v, context.Cause(ctx)
		}
	}
}
