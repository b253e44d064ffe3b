package simtest

import (
	"context"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// A command whose answer is lost is repeated under its request ID and gets the
// first result: it is not executed again.
func TestLostAnswerIsNotExecutedAgain(t *testing.T) {
	Simulate(t, 3, 47, func(c *Cluster) {
		c.settle(0)
		leader := c.AwaitLeader(successionLimit)
		asker := c.Others(leader)[0]
		clean := Quality{MinDelay: time.Millisecond, MaxDelay: time.Millisecond}
		lossy := clean
		lossy.Drop = 1
		c.Net.SetLink(leader.Name, asker.Name, lossy)
		answer := make(chan fsm.Result, 1)
		go func() {
			res, err := asker.Core().Session.Do(context.Background(), "",
				membership.AddJoinToken{ID: "once", Hash: [32]byte{1}, TTL: time.Hour})
			if err != nil {
				t.Errorf("the repeat was answered %v", err)
			}
			answer <- res
		}()
		c.Until(successionLimit, "the command is executed", func() bool { return holds(leader.Core().Store.View(), "once") })
		c.Net.SetLink(leader.Name, asker.Name, clean)
		if res := <-answer; res.Code != fsm.OK || !res.Repeated {
			c.Oracle.broken("applied-once: the repeat was answered %v (%s), repeated %v", res.Code, res.Message, res.Repeated)
		}
		c.Agree(successionLimit)
	})
}
