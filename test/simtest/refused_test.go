package simtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// TestForwardedTokenIsRefused forwards commands that carry a fencing token, the
// leader's own one among them: a duty acts on the leader or not at all.
func TestForwardedTokenIsRefused(t *testing.T) {
	Simulate(t, 3, 410, func(c *Cluster) {
		lead := c.AwaitLeader(successionLimit)
		follower := forwarder{c.Others(lead)[0]}
		to := raftstore.Server{ID: lead.Name, Address: lead.address()}
		ctx, cancel := context.WithTimeout(context.Background(), successionLimit)
		defer cancel()
		forward := func(h fsm.Header) error {
			data, err := fsm.Encode(h, settings.PutSetting{Key: "forwarded", Value: "yes"})
			c.must(err)
			_, err = follower.Propose(ctx, to, data)
			return err
		}
		token := lead.Core().Runner.Token()
		if err := forward(fsm.Header{Token: token}); !errors.Is(err, logerr.ErrNotLeader) {
			t.Errorf("forwarded-token: a command under the leader's token %v: %v, want ErrNotLeader", token, err)
		}
		if _, put := lead.Core().Store.View().Setting("forwarded"); put {
			t.Error("forwarded-token: the command was committed")
		}
		if err := forward(fsm.Header{}); err != nil {
			t.Errorf("a command without a token: %v", err)
		}
		c.Agree(successionLimit)
	})
}

// TestRestartedProcessClosesWhatItFinds kills the leader while its door is open
// and starts it at once: before it says a word it has closed the door and removed
// the address, which the kernel would have kept for almost another second.
func TestRestartedProcessClosesWhatItFinds(t *testing.T) {
	Simulate(t, 3, 360, func(c *Cluster) {
		c.withDoors(&PortTable{})
		for range 3 {
			c.awaitDoor()
			old := c.OpenDoor()
			c.must(old.Kill())
			if now := time.Now(); !old.Kernel.door(now) || !old.Kernel.holds(now) {
				t.Fatal("the door or the address ended with the process: the case is not reached")
			}
			c.must(old.Start())
			if now := time.Now(); old.Kernel.door(now) || old.Kernel.holds(now) {
				t.Errorf("close-at-start: after its start the door of %s is open: %t, its address there: %t", old.Name,
					old.Kernel.door(now), old.Kernel.holds(now))
			}
			c.settle(0)
		}
	})
}
