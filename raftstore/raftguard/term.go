package raftguard

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// Keys under which raft keeps its term and its vote (raft.go of hashicorp/raft).
const (
	keyTerm      = "CurrentTerm"
	keyVotedIn   = "LastVoteTerm"
	keyCandidate = "LastVoteCand"
)

// notFound is how every stable store of raft says that a key has no value.
const notFound = "not found"

// TermGuard keeps the term of a voter from falling. hashicorp/raft 1.8 handles heartbeats on
// goroutines of their own, next to its main loop, and both write the current term. A candidate
// that handles a heartbeat of term T while its main loop grants a vote in term T+1 can end up
// in term T again, in memory and on disk: it then acknowledges entries of a leader that it has
// voted out, and may vote a second time in T+1. TestRaftLowersItsTerm shows it on raft alone.
//
// TermGuard is raft's stable store, and the gate that its heartbeats pass. A heartbeat
// is handled next to raft's main loop only if it is of the present term, and the
// term rises only while no heartbeat is. So nothing but the main loop ever changes
// the term. What would lower it all the same, or change a vote that was given, is
// an error: raft panics, or gives no vote.
//
// Raft and the transport call it concurrently.
type TermGuard struct {
	raft.StableStore

	// heartbeats is held for reading while a heartbeat is handled, and for writing
	// while the term rises.
	heartbeats sync.RWMutex
	term       atomic.Uint64 // the highest that raft has stored or is storing
	raised     func(term uint64)

	vote      sync.Mutex
	votedIn   uint64
	candidate []byte // nil: the vote of votedIn was not given yet
}

// NewTermGuard returns the guard of what inner holds. raised is told the highest term that inner
// knows, of its own or of a vote, and then each higher one when inner has it, and not before:
// what is said on the strength of it holds after a crash, too.
func NewTermGuard(inner raft.StableStore, raised func(term uint64)) (*TermGuard, error) {
	g := &TermGuard{StableStore: inner, raised: raised}
	term, err := readNumber(inner, keyTerm)
	if err != nil {
		return nil, err
	}
	g.term.Store(term)
	if g.votedIn, err = readNumber(inner, keyVotedIn); err != nil {
		return nil, err
	}
	g.candidate, err = inner.Get([]byte(keyCandidate))
	if err != nil && err.Error() != notFound {
		return nil, fmt.Errorf("read %s: %w", keyCandidate, err)
	}
	raised(max(term, g.votedIn))
	return g, nil
}

func readNumber(s raft.StableStore, key string) (uint64, error) {
	n, err := s.GetUint64([]byte(key))
	if err != nil && err.Error() != notFound {
		return 0, fmt.Errorf("read %s: %w", key, err)
	}
	return n, nil
}

// SetUint64 implements raft.StableStore.
func (g *TermGuard) SetUint64(key []byte, n uint64) error {
	switch string(key) {
	case keyTerm:
		return g.raise(n)
	case keyVotedIn:
		if err := g.beginVote(n); err != nil {
			return err
		}
	}
	return g.StableStore.SetUint64(key, n)
}

// Set implements raft.StableStore.
func (g *TermGuard) Set(key, value []byte) error {
	if string(key) == keyCandidate {
		if err := g.giveVote(value); err != nil {
			return err
		}
	}
	return g.StableStore.Set(key, value)
}

// raise stores a term. The present one is there already: not to write it again
// spares a candidate that hears its leader a sync of the disk.
func (g *TermGuard) raise(term uint64) error {
	switch now := g.term.Load(); {
	case term == now:
		return nil
	case term < now:
		return fmt.Errorf("the term would fall from %d to %d", now, term)
	}
	g.heartbeats.Lock() // until those that are being handled have ended
	g.term.Store(term)
	g.heartbeats.Unlock()
	if err := g.StableStore.SetUint64([]byte(keyTerm), term); err != nil {
		return err
	}
	g.raised(term)
	return nil
}

// beginVote notes the term that the next vote is of.
func (g *TermGuard) beginVote(term uint64) error {
	g.vote.Lock()
	defer g.vote.Unlock()
	if now := g.term.Load(); term != now {
		return fmt.Errorf("a vote in term %d, and the term is %d", term, now)
	}
	if term < g.votedIn {
		return fmt.Errorf("a vote in term %d after one in term %d", term, g.votedIn)
	}
	if term > g.votedIn {
		g.votedIn, g.candidate = term, nil
	}
	return nil
}

// giveVote notes whom the vote goes to.
func (g *TermGuard) giveVote(candidate []byte) error {
	g.vote.Lock()
	defer g.vote.Unlock()
	if g.candidate != nil && !bytes.Equal(g.candidate, candidate) {
		return fmt.Errorf("a vote for %q in term %d, after one for %q", candidate, g.votedIn, g.candidate)
	}
	g.candidate = bytes.Clone(candidate)
	return nil
}

// Term returns the highest term that raft has stored or is storing.
func (g *TermGuard) Term() uint64 { return g.term.Load() }

// Heartbeats returns the handler of heartbeats for a transport. It calls handle,
// raft's own, for heartbeats of the present term; others take the way of all
// requests, through consumer, until stop is closed.
func (g *TermGuard) Heartbeats(handle func(raft.RPC), consumer chan<- raft.RPC, stop <-chan struct{}) func(raft.RPC) {
	return func(rpc raft.RPC) {
		if g.handleNow(handle, rpc) {
			return
		}
		select {
		case consumer <- rpc:
		case <-stop:
			rpc.Respond(nil, raft.ErrTransportShutdown)
		}
	}
}

func (g *TermGuard) handleNow(handle func(raft.RPC), rpc raft.RPC) bool {
	g.heartbeats.RLock()
	defer g.heartbeats.RUnlock()
	beat, ok := rpc.Command.(*raft.AppendEntriesRequest)
	if !ok || beat.Term != g.term.Load() {
		return false
	}
	handle(rpc)
	return true
}
