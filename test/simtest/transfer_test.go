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

// TestTransferIsAskedForAgain: a voter whose disk hung when leadership was handed to it
// may be asked again under the same leadership once it keeps up; while it may not, PXE
// service stays open.
func TestTransferIsAskedForAgain(t *testing.T) {
	Simulate(t, 3, 17, func(c *Cluster) {
		c.withDoors(&PortTable{})
		c.settle(0)
		load := c.StartLoad(2)
		c.awaitDoor()
		old := c.Leader()
		core, stuck := old.Core(), c.Others(old)[0]
		token := core.Runner.Token()
		to := raftstore.Server{ID: stuck.Name, Address: stuck.address()}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		stuck.Disk.Hang()
		time.Sleep(time.Second) // in a bubble: entries wait for the disk
		if err := core.Store.Transfer(ctx, to); err == nil {
			t.Error("leadership was handed to a voter whose disk hangs")
		}
		for range 20 {
			if err := core.HandOn(ctx, to); !errors.Is(err, raftguard.ErrTransferStuck) || c.OpenDoor() != old {
				t.Errorf("asked while it is stuck: %v; PXE is open at %v", err, c.OpenDoor())
			}
			time.Sleep(100 * time.Millisecond) // in a bubble
		}
		stuck.Disk.Thaw()
		c.Until(successionLimit, "it may be asked again", func() bool { return core.Store.MayTransfer(to) == nil })
		if now := core.Runner.Token(); now != token {
			t.Errorf("the leadership %v became %v meanwhile", token, now)
		}
		c.Until(successionLimit, "it takes leadership", func() bool { return core.HandOn(ctx, to) == nil })
		c.Until(doorLimit, "the other door opens", func() bool { return c.OpenDoor() == stuck })
		load.Stop()
		c.Agree(successionLimit)
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
			HandOn: func(context.Context, raftstore.Server) error { handed++; return errors.New("handed on") },
		}
		_, err := m.Transfer(context.Background(), "")
		var refused *api.Error
		if handed != 0 || !errors.As(err, &refused) || refused.Status != http.StatusConflict ||
			!strings.Contains(refused.Message, "1 of 3 voters live, 2 are needed") || refused.Hint == "" {
			t.Errorf("without-a-quorum: handed on %d times: %v", handed, err)
		}
	})
}

// TestTransferUnderLoad: a voter that keeps up is led to at the first try, whatever raft was
// about to send it.
func TestTransferUnderLoad(t *testing.T) {
	const soon = 100 * time.Millisecond
	Simulate(t, 3, 23, func(c *Cluster) {
		c.settle(0)
		load := c.StartLoad(24)
		defer load.Stop()
		for i := range 60 {
			old := c.AwaitLeader(successionLimit)
			to := c.Others(old)[i%2]
			time.Sleep(time.Duration(900+7*i) * time.Millisecond) // in a bubble: at any moment of a round
			began := time.Now()
			err := old.Core().Store.Transfer(context.Background(), raftstore.Server{ID: to.Name, Address: to.address()})
			if took := time.Since(began); err != nil || took > soon {
				t.Errorf("handed-on-under-load: %v, want %v at most: %v", took, soon, err)
			}
			c.AwaitLeader(successionLimit, old)
		}
	})
}
