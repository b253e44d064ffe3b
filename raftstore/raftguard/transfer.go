package raftguard

import (
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
)

// ErrTransferStuck is part of the error about a transfer that is not begun.
var ErrTransferStuck = errors.New("an earlier transfer to it has not ended, or has timed out a moment ago")

// roundsToTake is after how many rounds of replication raft has taken a request to catch
// up, but for one time in a million: in each round it chooses by chance between that
// request and new entries.
const roundsToTake = 20

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
	to   map[raft.ServerID]transfers
}

// transfers are those to one server.
type transfers struct {
	open   int // have not ended
	rounds int // are left until raft has taken the request of one that timed out
}

// Check refuses a transfer in a term to a server at which an earlier one may be stuck.
func (a *Transfers) Check(term uint64, to raft.ServerID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.to[to]; a.term == term && (t.open > 0 || t.rounds > 0) {
		return fmt.Errorf("%w; choose another voter, or try again when it has stored more of the log", ErrTransferStuck)
	}
	return nil
}

// Begun counts a transfer that raft has begun and returns its future, which must be
// waited for.
func (a *Transfers) Begun(term uint64, to raft.ServerID, f raft.Future) raft.Future {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.term != term {
		a.term, a.to = term, make(map[raft.ServerID]transfers)
	}
	t := a.to[to]
	t.open++
	a.to[to] = t
	return attempt{f, func(err error) { a.ended(term, to, err) }}
}

// ended notes how a transfer went. One that failed because of the target's answer has
// left nothing behind; raft has no error of its own for one that timed out.
func (a *Transfers) ended(term uint64, to raft.ServerID, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil || a.term != term {
		return
	}
	t := a.to[to]
	t.open--
	if err.Error() == "leadership transfer timeout" {
		t.rounds = roundsToTake
	}
	a.to[to] = t
}

// Stored notes that a server has stored all that one round of replication had for it: raft
// looks next at what else waits for that server.
func (a *Transfers) Stored(term uint64, to raft.ServerID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.to[to]; a.term == term && t.rounds > 0 {
		t.rounds--
		a.to[to] = t
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
