package raftguard

import (
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
)

// ErrTransferStuck is part of the error about a transfer that is not begun.
var ErrTransferStuck = errors.New(
	"an earlier transfer to it, under the same leadership, has not ended or has timed out")

// Transfers keeps a leader from asking raft twice for what raft cannot take back: a transfer of
// leadership to a server whose replication is stuck. It counts, for one leadership, the
// transfers to each server at which raft may still be. It may be used concurrently. The zero
// value is ready.
//
// Raft 1.8 tells the goroutine that replicates to the target to catch up, through a channel
// with room for one request, and waits for the answer until an election timeout has passed. A
// goroutine that waits for the target's disk takes nothing from that channel, and the request
// stays in it. The next transfer to the same target blocks there, and when the leadership ends
// meanwhile it blocks for good, with the mark that a transfer is under way: when this server
// leads again raft refuses every write.
type Transfers struct {
	mu   sync.Mutex
	term uint64
	open map[raft.ServerID]int
}

// Check refuses a transfer in a term to a server at which an earlier one may be stuck.
func (a *Transfers) Check(term uint64, to raft.ServerID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.term == term && a.open[to] > 0 {
		return fmt.Errorf("%w; choose another voter", ErrTransferStuck)
	}
	return nil
}

// Begun counts a transfer that raft has begun and returns its future, which must be
// waited for.
func (a *Transfers) Begun(term uint64, to raft.ServerID, f raft.Future) raft.Future {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.term != term {
		a.term, a.open = term, make(map[raft.ServerID]int)
	}
	a.open[to]++
	return attempt{f, func(err error) { a.ended(term, to, err) }}
}

// ended notes how a transfer went. One that failed because of the target's answer has
// left nothing behind; raft has no error of its own for one that timed out.
func (a *Transfers) ended(term uint64, to raft.ServerID, err error) {
	if err == nil || err.Error() == "leadership transfer timeout" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.term == term {
		a.open[to]--
	}
}

// attempt is the future of a transfer.
type attempt struct {
	raft.Future
	ended func(error)
}

// Error implements raft.Future.
func (f attempt) Error() error {
	err := f.Future.Error()
	f.ended(err)
	return err
}
