package raftguard

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/hashicorp/raft"
)

func newGuard(t *testing.T, term, votedIn uint64, candidate string) *TermGuard {
	t.Helper()
	store := raft.NewInmemStore()
	for key, n := range map[string]uint64{keyTerm: term, keyVotedIn: votedIn} {
		if err := store.SetUint64([]byte(key), n); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Set([]byte(keyCandidate), []byte(candidate)); err != nil {
		t.Fatal(err)
	}
	g, err := NewTermGuard(store, func(uint64) {})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestWhatTheGuardRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		write func(*TermGuard) error
		fails bool
	}{
		{"the present term", func(g *TermGuard) error { return g.SetUint64([]byte(keyTerm), 5) }, false},
		{"a higher term", func(g *TermGuard) error { return g.SetUint64([]byte(keyTerm), 6) }, false},
		{"a lower term", func(g *TermGuard) error { return g.SetUint64([]byte(keyTerm), 4) }, true},
		{"the same vote again", func(g *TermGuard) error { return vote(g, 5, "b") }, false},
		{"a second vote in one term", func(g *TermGuard) error { return vote(g, 5, "c") }, true},
		{"a vote in the next term", func(g *TermGuard) error {
			if err := g.SetUint64([]byte(keyTerm), 6); err != nil {
				return err
			}
			return vote(g, 6, "c")
		}, false},
		{"a vote in a term that has passed", func(g *TermGuard) error { return vote(g, 4, "b") }, true},
		{"a vote in a term that has not begun", func(g *TermGuard) error { return vote(g, 6, "b") }, true},
		{"another value", func(g *TermGuard) error { return g.SetUint64([]byte("other"), 1) }, false},
	} {
		if err := c.write(newGuard(t, 5, 5, "b")); (err != nil) != c.fails {
			t.Errorf("guarded-term: %s: %v", c.name, err)
		}
	}
}

// brokenStore writes no term, and tells what was raised before a term was to be written.
type brokenStore struct {
	*raft.InmemStore
	raised *uint64
	before uint64
	err    error
}

// SetUint64 implements raft.StableStore.
func (s *brokenStore) SetUint64(key []byte, n uint64) error {
	if string(key) != keyTerm {
		return s.InmemStore.SetUint64(key, n)
	}
	if s.before = *s.raised; s.err != nil {
		return s.err
	}
	return s.InmemStore.SetUint64(key, n)
}

// What is raised is on disk: the highest term or vote there at start, and each higher term
// once it is written.
func TestRaisedTermsAreOnDisk(t *testing.T) {
	for _, c := range []struct{ term, votedIn, want uint64 }{{0, 0, 0}, {5, 3, 5}, {5, 6, 6}} {
		var raised uint64
		store := raft.NewInmemStore()
		for key, n := range map[string]uint64{keyTerm: c.term, keyVotedIn: c.votedIn} {
			if err := store.SetUint64([]byte(key), n); err != nil {
				t.Fatal(err)
			}
		}
		disk := &brokenStore{InmemStore: store, raised: &raised}
		g, err := NewTermGuard(disk, func(term uint64) { raised = term })
		if err != nil || raised != c.want {
			t.Errorf("raised-is-on-disk: with term %d and a vote in %d on disk the process begins at %d, %v", c.term, c.votedIn,
				raised, err)
		}
		if err := g.SetUint64([]byte(keyTerm), 8); err != nil || disk.before != c.want || raised != 8 {
			t.Errorf("raised-is-on-disk: %d was raised before term 8 was written, %d after; %v", disk.before, raised, err)
		}
		disk.err = errors.New("no space")
		if err := g.SetUint64([]byte(keyTerm), 9); err == nil || raised != 8 {
			t.Errorf("raised-is-on-disk: term 9 was not written (%v), and %d is raised", err, raised)
		}
	}
}

// unreadable is a store of which one key cannot be read.
type unreadable struct {
	*raft.InmemStore
	key string
}

var errUnreadable = errors.New("input/output error")

func (u unreadable) Get(key []byte) ([]byte, error) {
	if string(key) == u.key {
		return nil, errUnreadable
	}
	return u.InmemStore.Get(key)
}

func (u unreadable) GetUint64(key []byte) (uint64, error) {
	if string(key) == u.key {
		return 0, errUnreadable
	}
	return u.InmemStore.GetUint64(key)
}

// A peer that cannot read its term or its vote does not vote: it may have done so.
func TestUnreadVoteIsNoVote(t *testing.T) {
	for _, key := range []string{keyTerm, keyVotedIn, keyCandidate} {
		if _, err := NewTermGuard(unreadable{raft.NewInmemStore(), key}, func(uint64) {}); !errors.Is(err, errUnreadable) {
			t.Errorf("unread-vote: %s cannot be read, and the guard says %v", key, err)
		}
	}
}

// vote does what raft does to record one.
func vote(g *TermGuard, term uint64, candidate string) error {
	if err := g.SetUint64([]byte(keyVotedIn), term); err != nil {
		return err
	}
	return g.Set([]byte(keyCandidate), []byte(candidate))
}

// The term does not rise while a heartbeat is handled, and a heartbeat of another
// term is handled by the main loop. In real time: a bubble does not see that a
// mutex blocks.
func TestTermRisesBetweenHeartbeats(t *testing.T) {
	g := newGuard(t, 5, 0, "")
	var raising sync.WaitGroup
	g.Heartbeats(func(raft.RPC) {
		raising.Go(func() {
			if err := g.SetUint64([]byte(keyTerm), 6); err != nil {
				t.Error(err)
			}
		})
		for g.term.Load() == 5 && g.heartbeats.TryRLock() { // until the term rises, or waits for the heartbeat
			g.heartbeats.RUnlock()
			runtime.Gosched()
		}
		if g.term.Load() != 5 {
			t.Error("heartbeat-before-term: the term rose while a heartbeat was handled")
		}
	}, nil, nil)(raft.RPC{Command: &raft.AppendEntriesRequest{Term: 5}})
	raising.Wait()
	if g.term.Load() != 6 {
		t.Errorf("after the heartbeat the term is %d", g.term.Load())
	}
	for _, term := range []uint64{5, 7} {
		next, main := false, make(chan raft.RPC, 1)
		g.Heartbeats(func(raft.RPC) { next = true }, main, nil)(raft.RPC{Command: &raft.AppendEntriesRequest{Term: term}})
		if next || len(main) != 1 {
			t.Errorf("other-terms-wait: a heartbeat of term %d in term 6 is handled next to the main loop", term)
		}
	}
}
