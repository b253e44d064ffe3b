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
