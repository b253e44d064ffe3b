package raftguard

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// idleRig is a leader in term 5 whose follower b has acknowledged entry 7, and that all up
// to it is committed.
type idleRig struct {
	idle *Idle
	stop chan struct{}
}

const idleMost = 300 * time.Millisecond

func told7() *raft.AppendEntriesRequest {
	return &raft.AppendEntriesRequest{Term: 5, PrevLogEntry: 7, LeaderCommitIndex: 7}
}

func newIdleRig() *idleRig {
	r := &idleRig{stop: make(chan struct{})}
	r.idle = &Idle{Log: NewLog(raft.NewInmemStore()), Most: idleMost, Stop: r.stop}
	r.sent(raft.AppendEntriesResponse{Term: 5, Success: true}, nil)
	return r
}

func (r *idleRig) sent(resp raft.AppendEntriesResponse, err error) {
	r.idle.Sent("b", told7(), NewAcks().Sending(5), &resp, err)
}

// A request that tells its follower nothing is held until there is an entry to be written,
// for so long at most, and no other request is.
func TestRequestsThatTellNothingWait(t *testing.T) {
	const soon = 40 * time.Millisecond
	written := func(t *testing.T, r *idleRig) {
		if err := r.idle.Log.StoreLogs([]*raft.Log{{Index: 8, Term: 5}}); err != nil {
			t.Error(err)
		}
	}
	answered := func(resp raft.AppendEntriesResponse, err error) func(*testing.T, *idleRig) {
		return func(_ *testing.T, r *idleRig) { r.sent(resp, err) }
	}
	for name, c := range map[string]struct {
		before, after func(*testing.T, *idleRig) // soon after the request
		change        func(*raft.AppendEntriesRequest)
		waits         time.Duration
	}{
		"nothing happens":                           {waits: idleMost},
		"an entry is written":                       {after: written, waits: soon},
		"an entry was written that it does not say": {before: written},
		"nothing waits any more":                    {after: func(_ *testing.T, r *idleRig) { close(r.stop) }, waits: soon},
		"leadership is being handed on":             {after: func(_ *testing.T, r *idleRig) { r.idle.Hurry() }, waits: soon},
		"leadership was being handed on before":     {before: func(_ *testing.T, r *idleRig) { r.idle.Hurry() }},
		"leadership was handed on, and is again here": {
			before: func(_ *testing.T, r *idleRig) { r.idle.Hurry()() }, waits: idleMost},
		"more is committed":         {change: func(q *raft.AppendEntriesRequest) { q.LeaderCommitIndex = 8 }},
		"it is of another term":     {change: func(q *raft.AppendEntriesRequest) { q.Term = 6 }},
		"it compares another entry": {change: func(q *raft.AppendEntriesRequest) { q.PrevLogEntry = 8 }},
		"it brings an entry": {
			change: func(q *raft.AppendEntriesRequest) { q.Entries = make([]*raft.Log, 1) }},
		"it is a heartbeat": {
			change: func(q *raft.AppendEntriesRequest) { *q = raft.AppendEntriesRequest{Term: 5} }},
		"the one before it failed":      {before: answered(raft.AppendEntriesResponse{}, errors.New("lost"))},
		"the one before it was refused": {before: answered(raft.AppendEntriesResponse{Term: 5}, nil)},
		"a newer term answered":         {before: answered(raft.AppendEntriesResponse{Term: 6, Success: true}, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, req := newIdleRig(), told7()
				if c.before != nil {
					c.before(t, r)
				}
				if c.change != nil {
					c.change(req)
				}
				if c.after != nil {
					time.AfterFunc(soon, func() { c.after(t, r) })
				}
				began := time.Now()
				r.idle.Await("b", req)
				if took := time.Since(began); took != c.waits {
					t.Errorf("tells-nothing: it was held for %v, want %v", took, c.waits)
				}
			})
		})
	}
}

// A follower that was started again learns what is committed, though the leader has told
// the process before it: no two requests are further apart than Most and raft's pause.
func TestFollowersAreToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pause = 40 * time.Millisecond // raft's commit timeout at most
		r := newIdleRig()
		last := time.Now()
		for range 20 {
			time.Sleep(pause) // in a bubble
			r.idle.Await("b", told7())
			if apart := time.Since(last); apart > idleMost+pause {
				t.Fatalf("told-again: %v between two requests", apart)
			}
			last = time.Now()
			r.sent(raft.AppendEntriesResponse{Term: 5, Success: true}, nil)
		}
	})
}
