package events_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// ledger is a replicated state of one peer, to which a test commits.
type ledger struct {
	t       testing.TB
	mu      sync.Mutex
	state   *fsm.State
	index   uint64
	session fencing.Token
	changed chan struct{} // closed by the next commit
}

func newLedger(t testing.TB) *ledger {
	t.Helper()
	state, err := fsm.Founded(fsm.Found{
		ClusterID: "6f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a10", CACert: []byte("-----BEGIN CERTIFICATE-----\n"),
		CAKey:     []byte("-----BEGIN PRIVATE KEY-----\n"),
		GossipKey: []byte(strings.Repeat("k", 32)),
		Member:    membership.Member{ID: "a", Name: "h1", Address: "h1:7350", Version: fsm.Version},
	}, time.UnixMilli(1_700_000_000_000))
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{t: t, state: state, index: 1, changed: make(chan struct{})}
	l.session = l.commit(fsm.Header{}, membership.OpenSession{Peer: "a", Boot: "1", Version: fsm.Version})
	return l
}

// Changed implements events.Log.
func (l *ledger) Changed() (fsm.View, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.View(), l.changed
}

func (l *ledger) view() fsm.View {
	v, _ := l.Changed()
	return v
}

// commit applies a command, which must succeed, and returns its token.
func (l *ledger) commit(h fsm.Header, c fsm.Command) fencing.Token {
	l.t.Helper()
	h.WallMillis = 1_700_000_000_000
	data, err := fsm.Encode(h, c)
	if err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index++
	res := l.state.Apply(fsm.Entry{Index: l.index, Term: 2, Data: data})
	if res.Code != fsm.OK {
		l.t.Fatalf("%v: %s", fsm.KindOf(c), res.Message)
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return res.Token
}

// report commits events about a topic, one for each text.
func (l *ledger) report(topic eventring.Topic, texts ...string) {
	l.t.Helper()
	var c fsm.ReportEvents
	for _, text := range texts {
		c.Reports = append(c.Reports, eventring.Report{Topic: topic, Action: "seen", Text: text})
	}
	l.commit(fsm.Header{Session: l.session}, c)
}

// refound founds the cluster again with an index at which its history goes on. The
// last entries may not have been committed.
func (l *ledger) refound(uncommitted uint64) {
	l.t.Helper()
	l.mu.Lock()
	if err := l.state.Refound(
		fsm.Refound{Index: l.index, Uncommitted: uncommitted, UnixMillis: 1_700_000_000_000, NewIncarnation: true,
			Survivor: "a"}); err != nil {
		l.t.Fatal(err)
	}
	l.mu.Unlock()
	l.session = l.commit(fsm.Header{}, membership.OpenSession{Peer: "a", Boot: "2", Version: fsm.Version})
}
