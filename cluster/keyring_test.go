package cluster

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
)

func ringKey(b byte) []byte { return bytes.Repeat([]byte{b}, membership.GossipKeySize) }

func TestRingReadsBack(t *testing.T) {
	founded := Ring{Keys: [][]byte{ringKey(1)}}
	text, err := founded.Encode()
	if err != nil || !bytes.Equal(text, ringKey(1)) {
		t.Errorf("the key of a foundation is written as %q: older binaries would not read it: %v", text, err)
	}
	for _, r := range []Ring{founded, {Changed: 7, Keys: [][]byte{ringKey(1)}},
		{Changed: 9, Keys: [][]byte{ringKey(1), ringKey(2)}}} {
		text, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseRing(text)
		if err != nil || back.Changed != r.Changed || len(back.Keys) != len(r.Keys) || !bytes.Equal(back.Keys[0], r.Keys[0]) {
			t.Errorf("%d keys of token %v read back as %d of %v: %v", len(r.Keys), r.Changed, len(back.Keys), back.Changed, err)
		}
		if strings.Contains(r.String(), "1") {
			t.Error("a ring prints its keys")
		}
	}
	for _, text := range []string{"", "short", `{"changed":"1","keys":[]}`, `{"changed":"1","keys":["AAAA"]}`} {
		if _, err := ParseRing([]byte(text)); err == nil || strings.Contains(err.Error(), "AAAA") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// keyLog is a log of one member, at work on the gossip keys.
type keyLog struct {
	t     *testing.T
	state *fsm.State
	deaf  bool       // it cannot be told anything
	mu    sync.Mutex // over state
}

func newKeyLog(t *testing.T) *keyLog {
	t.Helper()
	state, err := fsm.Founded(fsm.Found{
		ClusterID: "11111111-2222-4333-8444-555555555555", CACert: []byte("-----BEGIN X"), CAKey: []byte("-----BEGIN X"),
		GossipKey: ringKey(1),
		Member:    membership.Member{ID: "a", Name: "h1", Address: "192.0.2.1:7350", Version: fsm.Version},
	}, time.UnixMilli(1))
	if err != nil {
		t.Fatal(err)
	}
	return &keyLog{t: t, state: state}
}

func (l *keyLog) commit(h fsm.Header, c fsm.Command) fsm.Result {
	l.t.Helper()
	data, err := fsm.Encode(h, c)
	if err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Apply(fsm.Entry{Index: l.state.View().Index() + 1, Term: 1, Data: data})
}

func (l *keyLog) view() fsm.View {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.View()
}

func (l *keyLog) Do(_ context.Context, _ string, c fsm.Command) (fsm.Result, error) {
	if l.deaf {
		return fsm.Result{}, errors.New("no leader")
	}
	return l.commit(fsm.Header{}, c), nil
}

func (l *keyLog) advance() {
	l.t.Helper()
	v := l.view()
	if err := l.commit(fsm.Header{Token: v.Leadership().Token},
		membership.AdvanceGossipKeys{Changed: v.GossipRotation().Changed}).Err(); err != nil {
		l.t.Fatal(err)
	}
}

// A peer confirms what it has on its disk and in use, and nothing else; what it
// missed while it was down it takes over at once; it never goes back.
func TestRingFollowsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newKeyLog(t)
		log.commit(fsm.Header{}, fsm.Lead{Peer: "a", Boot: "b"})
		log.commit(fsm.Header{}, membership.OpenSession{Peer: "a", Boot: "b", Version: fsm.Version})
		var disk, used Ring
		var full atomic.Bool
		full.Store(true)
		f := NewRingFollower(RingOptions{
			Peer: "a", Now: Ring{Keys: [][]byte{ringKey(1)}}, View: func() fsm.View {
				return log.view()
			}, Do: log, Logger: slog.New(slog.DiscardHandler),
			Put: []func(Ring) error{
				func(r Ring) error {
					if full.Load() {
						return errors.New("disk full")
					}
					disk = r
					return nil
				},
				func(r Ring) error { used = r; return nil },
			},
		})
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { f.Run(ctx); close(ended) }()
		look := func() {
			time.Sleep(3 * ringLook)
			synctest.Wait()
		}
		log.commit(fsm.Header{}, membership.RotateGossipKey{Key: ringKey(2)})
		look()
		if used.Keys != nil || len(log.view().GossipMissing()) != 1 {
			t.Errorf("confirmed-means-durable: keys are in use or confirmed that are on no disk")
		}
		full.Store(false)
		look()
		if len(used.Keys) != 2 || used.Changed != disk.Changed || len(log.view().GossipMissing()) != 0 {
			t.Errorf("%d keys, missing %v", len(used.Keys), log.view().GossipMissing())
		}
		old := log.view() // as a snapshot of a peer that was just started
		for range 2 {     // the peer sleeps through both
			log.advanceUnseen()
		}
		look()
		if len(used.Keys) != 1 || !bytes.Equal(used.Keys[0], ringKey(2)) {
			t.Errorf("after the rotation there are %d keys", len(used.Keys))
		}
		stop()
		<-ended
		now := f.have
		f.o.View = func() fsm.View { return old }
		if err := f.followRing(t.Context()); err != nil || f.have.Changed != now.Changed {
			t.Errorf("ring-never-goes-back: from %v to %v: %v", now.Changed, f.have.Changed, err)
		}
		unsaid := old.GossipRotation()
		f.have.Changed, unsaid.Confirmed = unsaid.Changed, nil
		if err := f.confirm(t.Context(), unsaid); err != nil {
			t.Errorf("a rotation that went on before it was confirmed is no failure: %v", err)
		}
		f.o.Peer = "removed"
		if err := f.confirm(t.Context(), unsaid); err == nil {
			t.Error("a peer that is no member has confirmed its keys")
		}
	})
}

// advanceUnseen takes a step without waiting for anybody's word.
func (l *keyLog) advanceUnseen() {
	l.t.Helper()
	v := l.view()
	l.commit(fsm.Header{}, membership.ConfirmGossipKeys{Peer: "a", Changed: v.GossipRotation().Changed})
	l.advance()
}

func TestGossipUnderAnotherKey(t *testing.T) {
	a, b := startGossip(t, "a", 1), startGossip(t, "b", 2, 1)
	join := func() error {
		_, err := a.list.Join([]string{b.opts.Listen})
		return err
	}
	if err := join(); err == nil {
		t.Error("b speaks under a key that a has not got, and a understood it")
	}
	for _, step := range []struct {
		keys string
		ok   bool
	}{{"\x01\x02", true}, {"\x02\x01", true}, {"\x02", true}, {"\x01", false}} {
		ring := Ring{}
		for _, k := range []byte(step.keys) {
			ring.Keys = append(ring.Keys, ringKey(k))
		}
		if err := a.SetRing(ring); err != nil {
			t.Fatal(err)
		}
		if got := len(a.keys.GetKeys()); got != len(ring.Keys) {
			t.Errorf("%d keys are accepted, want %d", got, len(ring.Keys))
		}
		if err := join(); (err == nil) != step.ok {
			t.Errorf("with keys %x: %v", step.keys, err)
		}
	}
}
