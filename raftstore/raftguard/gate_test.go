package raftguard

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// stopwatch is a clock that the test moves.
type stopwatch struct{ at time.Duration }

func (s *stopwatch) now() time.Duration { return s.at }

func (s *stopwatch) pass(t *testing.T, g *Gate, at time.Duration, term uint64) {
	t.Helper()
	s.at = at
	if err := g.Pass(term); err != nil {
		t.Fatal(err)
	}
}

func age(t *testing.T, g *Gate, term uint64, want time.Duration) {
	t.Helper()
	g.Raise(term)
	if got, err := g.Age(term); got != want || err != nil {
		t.Errorf("oldest-acknowledgement: the age for term %d is %v, %v; want %v", term, got, err, want)
	}
}

// An age is the time since the newest acknowledgement of any older term, and counts from
// the beginning of the process where there was none.
func TestAgeIsOfTheNewestOlderAcknowledgement(t *testing.T) {
	for name, c := range map[string]struct {
		passed []uint64 // terms, one each second from the first on
		of     uint64
		want   time.Duration // at second 10
	}{
		"none":                               {nil, 5, 10},
		"one":                                {[]uint64{3}, 5, 9},
		"the newest of a term":               {[]uint64{3, 3, 3}, 5, 7},
		"the newest of all terms":            {[]uint64{2, 3, 4}, 5, 7},
		"own ones do not count":              {[]uint64{3, 5, 5}, 5, 9},
		"own ones after several terms":       {[]uint64{2, 3, 5, 5}, 5, 8},
		"own ones alone":                     {[]uint64{5, 5}, 5, 10},
		"older after a newer one":            {[]uint64{3, 4, 3}, 5, 7},
		"older after a newer one, then more": {[]uint64{4, 3, 5}, 5, 8},
		"older beside own ones":              {[]uint64{3, 5, 4, 5}, 5, 7},
	} {
		t.Run(name, func(t *testing.T) {
			clock := &stopwatch{}
			g := NewGate(clock.now)
			for i, term := range c.passed { // the terms are not on disk yet, so that all may come
				clock.pass(t, g, time.Duration(i+1), term)
			}
			clock.at = 10
			age(t, g, c.of, c.want)
		})
	}
}

// What was before the process began is as old as the process at least.
func TestAgeOfANewProcess(t *testing.T) {
	clock := &stopwatch{at: time.Hour}
	g := NewGate(clock.now)
	clock.at += time.Second
	age(t, g, 9, time.Second)
}

// A peer answers in exactly the term of the question, and never for one that it has left.
func TestAgeIsOfOneTerm(t *testing.T) {
	clock := &stopwatch{}
	g := NewGate(clock.now)
	clock.pass(t, g, 1, 5)
	g.Raise(6)
	for _, c := range []struct {
		term uint64
		want error
	}{{5, ErrNewerTerm}, {6, nil}, {7, ErrNotYet}} {
		if _, err := g.Age(c.term); !errors.Is(err, c.want) {
			t.Errorf("age-of-one-term: asked for term %d in term 6: %v, want %v", c.term, err, c.want)
		}
	}
	clock.pass(t, g, 2, 7) // of a term that is not on disk yet
	if _, err := g.Age(6); !errors.Is(err, ErrNewerTerm) {
		t.Errorf("age-of-one-term: asked for term 6 after an acknowledgement of term 7: %v", err)
	}
}

// After an answer nothing older leaves, and the floor never falls.
func TestNothingOlderLeavesAfterAnAnswer(t *testing.T) {
	g := NewGate((&stopwatch{}).now)
	g.Raise(6)
	if _, err := g.Age(6); err != nil {
		t.Fatal(err)
	}
	g.Raise(4)
	for term, leaves := range map[uint64]bool{4: false, 5: false, 6: true, 7: true} {
		if err := g.Pass(term); (err == nil) != leaves {
			t.Errorf("floor-never-falls: after an answer for term 6 an acknowledgement of term %d: %v", term, err)
		}
	}
}

// Both times are read under the lock: else one that is read earlier could be noted later,
// in the place of a newer one.
func TestTimeIsReadUnderTheLock(t *testing.T) {
	var g *Gate
	read, bare := 0, 0
	g = NewGate(func() time.Duration {
		if read++; g != nil && g.mu.TryLock() {
			g.mu.Unlock()
			bare++
		}
		return 0
	})
	if err := g.Pass(1); err != nil {
		t.Fatal(err)
	}
	age(t, g, 2, 0)
	if read != 3 || bare > 0 {
		t.Errorf("read-under-the-lock: of %d readings of the clock %d were without the lock", read, bare)
	}
}

// answerOf lets a gate in term 5 judge an answer on either path, an hour after it began, and
// returns it with the age for term 6 while the transport has not taken the answer yet.
func answerOf(t *testing.T, heartbeat bool, floor uint64, give raft.RPCResponse) (taken raft.RPCResponse,
	since time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		g := NewGate(func() time.Duration { return time.Since(began) })
		g.Raise(floor)
		answers, stop := make(chan raft.RPCResponse), make(chan struct{})
		rpc := raft.RPC{Command: &raft.AppendEntriesRequest{Term: 5}, RespChan: answers}
		time.Sleep(time.Hour)
		if heartbeat {
			go g.Heartbeats(func(held raft.RPC) { held.RespChan <- give }, stop)(rpc)
		} else {
			g.Watch(rpc, nil, stop).RespChan <- give
		}
		synctest.Wait() // the answer is about to leave
		g.Raise(6)
		var err error
		if since, err = g.Age(6); err != nil {
			t.Fatal(err)
		}
		taken = <-answers
	})
	return taken, since
}

// What the leader counts for a proof is noted before it leaves, on both paths; and nothing
// of a term below the floor leaves.
func TestAcknowledgementsPassTheGate(t *testing.T) {
	broken := errors.New("no space")
	for name, c := range map[string]struct {
		floor uint64
		give  raft.RPCResponse
		noted bool
		err   error
	}{
		"success": {5, raft.RPCResponse{Response: &raft.AppendEntriesResponse{Term: 5, Success: true}}, true,
			nil},
		"entries do not fit": {5, raft.RPCResponse{Response: &raft.AppendEntriesResponse{Term: 5}}, true, nil},
		"of a newer term":    {5, raft.RPCResponse{Response: &raft.AppendEntriesResponse{Term: 6}}, false, nil},
		"an error": {5, raft.RPCResponse{Response: &raft.AppendEntriesResponse{Term: 5}, Error: broken}, false,
			broken},
		"the term is over": {6, raft.RPCResponse{Response: &raft.AppendEntriesResponse{Term: 5, Success: true}}, false,
			ErrNewerTerm},
		"not fitting and over": {6, raft.RPCResponse{Response: &raft.AppendEntriesResponse{Term: 5}}, false, ErrNewerTerm},
	} {
		for path, heartbeat := range map[string]bool{"heartbeat": true, "entries": false} {
			t.Run(name+", "+path, func(t *testing.T) {
				got, since := answerOf(t, heartbeat, c.floor, c.give)
				if noted := since == 0; noted != c.noted {
					t.Errorf("noted-before-it-leaves: as the answer leaves, the newest acknowledgement is %v old", since)
				}
				if !errors.Is(got.Error, c.err) || c.err == nil && got.Response != c.give.Response {
					t.Errorf("below-the-floor: the answer is %+v, %v; want the error %v", got.Response, got.Error, c.err)
				}
			})
		}
	}
}

// An answer may be amended before the gate, other requests pass by it, and a store that
// closes answers what raft has left.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate((&stopwatch{}).now)
		answers, stop := make(chan raft.RPCResponse, 1), make(chan struct{})
		entries := raft.RPC{Command: &raft.AppendEntriesRequest{Term: 5}, RespChan: answers}
		amended := errors.New("amended")
		held := g.Watch(entries, func(a *raft.RPCResponse) { a.Error = amended }, stop)
		held.Respond(&raft.AppendEntriesResponse{Term: 5}, nil)
		if a := <-answers; !errors.Is(a.Error, amended) {
			t.Errorf("answer %v", a.Error)
		}
		vote := raft.RPC{Command: &raft.RequestVoteRequest{}, RespChan: answers}
		if held := g.Watch(vote, nil, stop); held.RespChan != vote.RespChan {
			t.Error("a request for a vote is held")
		}
		g.Watch(entries, nil, stop)
		go g.Heartbeats(func(raft.RPC) {}, stop)(entries)
		close(stop)
		for range 2 {
			if a := <-answers; !errors.Is(a.Error, raft.ErrTransportShutdown) {
				t.Errorf("answer %v", a.Error)
			}
		}
	})
}
