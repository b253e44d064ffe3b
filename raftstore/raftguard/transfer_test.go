package raftguard

import (
	"errors"
	"testing"

	"github.com/hashicorp/raft"
)

// answered is a future that has ended.
type answered struct{ err error }

func (a answered) Error() error { return a.err }

// A transfer that failed by its target's answer may be repeated; one that is under
// way, timed out or ended well is not, under the same leadership.
func TestTransfers(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		stuck bool
	}{
		"refused by the target": {errors.New("failed to make TimeoutNow RPC to b: muted"), false},
		"another is under way":  {raft.ErrLeadershipTransferInProgress, false},
		"timed out":             {errors.New("leadership transfer timeout"), true},
		"ended well":            {nil, true},
	} {
		var a Transfers
		if err := a.Check(4, "b"); err != nil {
			t.Errorf("%s: the first one: %v", name, err)
		}
		begun := a.Begun(4, "b", answered{c.err})
		if err := a.Check(4, "b"); !errors.Is(err, ErrTransferStuck) {
			t.Errorf("%s: while it is under way: %v", name, err)
		}
		if err := begun.Error(); !errors.Is(err, c.err) {
			t.Errorf("%s: it ended with %v", name, err)
		}
		if err := a.Check(4, "b"); errors.Is(err, ErrTransferStuck) != c.stuck {
			t.Errorf("%s: the next one: %v", name, err)
		}
		if err := errors.Join(a.Check(5, "b"), a.Check(4, "c")); err != nil {
			t.Errorf("%s: under the next leadership, or to another server: %v", name, err)
		}
	}
}

// A transfer that timed out may be repeated when raft has surely taken its request: after
// rounds of replication to that server under that leadership, and no others.
func TestTransferAgainAfterATimeout(t *testing.T) {
	const term = 4
	var a Transfers
	timeOut := func(to raft.ServerID) {
		if err := a.Begun(term, to, answered{errors.New("leadership transfer timeout")}).Error(); err == nil {
			t.Fatal("the transfer did not time out")
		}
	}
	timeOut("b")
	timeOut("c")
	for range 2 * roundsToTake {
		a.Stored(term, "c")
		a.Stored(term-1, "b")
	}
	if err := a.Check(term, "c"); err != nil {
		t.Errorf("after rounds of its own: %v", err)
	}
	for range roundsToTake {
		if err := a.Check(term, "b"); !errors.Is(err, ErrTransferStuck) {
			t.Fatalf("while raft may still hold the request: %v", err)
		}
		a.Stored(term, "b")
	}
	if err := a.Check(term, "b"); err != nil {
		t.Errorf("after %d rounds: %v", roundsToTake, err)
	}
	timeOut("b")
	if err := a.Check(term, "b"); !errors.Is(err, ErrTransferStuck) {
		t.Errorf("when it timed out again: %v", err)
	}
}
