package simtest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/raftguard"
)

// A leader asks a follower whose disk hangs once; it can write when it leads again.
func TestTransferToAStuckVoterIsTriedOnce(t *testing.T) {
	Simulate(t, 3, 12, func(c *Cluster) {
		c.settle(0)
		load := c.StartLoad(2)
		old := c.AwaitLeader(successionLimit)
		stuck := c.Others(old)[0]
		to := raftstore.Server{ID: stuck.Name, Address: stuck.address()}
		stuck.Disk.Hang()
		time.Sleep(time.Second) // in a bubble: entries wait for the disk
		for n, want := range []error{nil, raftguard.ErrTransferStuck} {
			ctx, cancel := context.WithTimeout(context.Background(), 2*successionLimit)
			err := old.Core().Store.Transfer(ctx, to)
			cancel()
			if err == nil || errors.Is(err, raftguard.ErrTransferStuck) != (want != nil) {
				t.Errorf("transfer %d to a voter whose disk hangs: %v", n+1, err)
			}
		}
		c.Net.Isolate(old.Name)
		c.Until(successionLimit, "the leadership ends", func() bool { return old.Core().Runner.Token().IsZero() })
		stuck.Disk.Thaw()
		c.AwaitLeader(successionLimit, old)
		c.Net.HealAll()
		c.Until(2*time.Minute, "the first leader leads again", func() bool {
			if lead := c.Leader(); lead != nil && lead != old {
				ctx, cancel := context.WithTimeout(context.Background(), successionLimit)
				defer cancel()
				_ = lead.Core().Store.Transfer(ctx, raftstore.Server{ID: old.Name, Address: old.address()}) // tried until it works
			}
			return c.Leader() == old
		})
		load.Stop()
		c.Agree(successionLimit)
		load.Verify(old)
	})
}

// TestLeadershipIsNotHandedOnWithoutAQuorum: a leader that does not hear a majority refuses with a
// sentence, before it closes the PXE service.
func TestLeadershipIsNotHandedOnWithoutAQuorum(t *testing.T) {
	Simulate(t, 3, 12, func(c *Cluster) {
		c.settle(0)
		lead := c.AwaitLeader(successionLimit)
		handed := 0
		m := &admin.Membership{
			Here:   &admin.Here{Store: lead.Core().Store, NameOf: func(fsm.View, string) string { return "" }},
			Quorum: func() api.Quorum { return api.Quorum{Voters: 3, Live: 1, Need: 2} },
			HandOn: func(context.Context, func(context.Context) error) error { handed++; return errors.New("handed on") },
		}
		_, err := m.Transfer(context.Background(), "")
		var refused *api.Error
		if handed != 0 || !errors.As(err, &refused) || refused.Status != http.StatusConflict ||
			!strings.Contains(refused.Message, "1 of 3 voters live, 2 are needed") || refused.Hint == "" {
			t.Errorf("without-a-quorum: handed on %d times: %v", handed, err)
		}
	})
}
