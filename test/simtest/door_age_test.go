package simtest

import (
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/membership"
)

// ageSlack is how much later than it may, at most, a leader of this simulation opens: the
// record in the log, and a turn of its guard.
const ageSlack = 250 * time.Millisecond

// TestDoorOpensByAge kills leader after leader: the next one's door opens when the wait
// since the last acknowledgement of the old one is over, or with its election, if that
// takes longer, not at the end of both (by-age). So it is after a change of the members,
// once the leader has recorded its door again, and so for voters that have just started.
func TestDoorOpensByAge(t *testing.T) {
	t.Parallel()
	Simulate(t, 3, 330, func(c *Cluster) {
		c.withDoors(&PortTable{})
		for n := range 9 {
			c.awaitDoor()
			old := c.Leader()
			if n%3 == 2 {
				c.votesAgain(c.Others(old)[n%2])
			}
			old = c.Leader()
			token := old.Core().Runner.Token()
			began := time.Now()
			c.must(old.Kill())
			c.AwaitLeader(successionLimit, old)
			may := max(time.Since(began), 2*doorLease+250*time.Millisecond)
			c.Until(doorLimit, "another door opens", func() bool { p := c.OpenDoor(); return p != nil && p != old })
			if gap := time.Since(began); gap > may+ageSlack {
				t.Errorf("by-age: loss %d: the next door opened after %v, and could have after %v", n, gap, may)
			}
			c.must(old.Start())
			c.settle(token)
		}
	})
}

// votesAgain takes a member's vote away and gives it back, and leaves the leader time to
// record its door again after both.
func (c *Cluster) votesAgain(p *Peer) {
	c.T.Helper()
	c.exclude(p, membership.FromVoting, true)
	c.awaitVote(p, false)
	c.exclude(p, membership.FromVoting, false)
	c.awaitVote(p, true)
	time.Sleep(3 * time.Second) // in a bubble
}
