package simtest

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// A killed leader is replaced as soon as its silence has lasted for a heartbeat timeout and
// the next voter in turn has noticed: no change waits for a follower that looks late. One in
// some hundreds waits for another election, where raft itself had a voter look at the moment
// of the one whose turn it was, and their votes were split.
func TestKilledLeaderIsReplacedInTime(t *testing.T) {
	t.Parallel()
	kill := Losses()[4]
	for _, peers := range []int{3, 5} {
		t.Run(fmt.Sprintf("%d peers", peers), func(t *testing.T) {
			t.Parallel()
			Simulate(t, peers, uint64(900+peers), func(c *Cluster) {
				var gaps []time.Duration
				for range 60 {
					c.settle(0)
					time.Sleep(time.Duration(c.rng.Int64N(int64(time.Second)))) // in a bubble
					gaps = append(gaps, c.Lose(kill))
				}
				slices.Sort(gaps)
				t.Logf("without a leader: median %v, nine of ten %v, longest %v", gaps[30], gaps[53], gaps[59])
				const split = 2 // a third of 60 is one in thousands of runs
				most := 2 * c.Timing.Heartbeat
				if late := gaps[len(gaps)-1-split]; late > most {
					t.Errorf("replaced-in-time: %v and more without a leader %d times, want at most %v", late, split+1, most)
				}
				if longest := gaps[len(gaps)-1]; longest > 2*most {
					t.Errorf("replaced-in-time: %v without a leader, want at most %v", longest, 2*most)
				}
			})
		})
	}
}
