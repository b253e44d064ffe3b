package simtest

import (
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// lossesWanted is how many leader losses the suite simulates: few by default,
// 2,000 in `make sim`.
func lossesWanted(t *testing.T) int { return countFrom(t, "TRIVET_SIM_LOSSES", 120) }

// countFrom returns how much of something a test does: what the environment says, or
// the usual.
func countFrom(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// untilSeen makes rounds of a test until chance has brought about all that the test is
// of: lacking names what is missing, "" for nothing. After most rounds it is a fault.
func untilSeen(t testing.TB, most int, lacking func() string, round func(n int)) {
	t.Helper()
	for n := range most {
		if round(n); lacking() == "" || t.Failed() {
			return
		}
	}
	t.Errorf("no %s in %d rounds: they prove nothing", lacking(), most)
}

// TestLosses is the promise of the log, attacked: leaders lost in every way,
// in turn and under load. Bubbles of 40 losses run side by side, so that the
// log of each stays short. The seed (TRIVET_SIM_SEED) decides what is lost when.
func TestLosses(t *testing.T) {
	const perBubble = 40
	began, before := time.Now(), processorTime()
	total, first := lossesWanted(t), countFrom(t, seedEnv, 1)
	var leaderships, writes atomic.Int64
	t.Run("bubbles", func(t *testing.T) {
		for i := range (total + perBubble - 1) / perBubble {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				peers := 3
				if i%4 == 3 {
					peers = 5
				}
				Simulate(t, peers, uint64(first+i), func(c *Cluster) {
					writes.Add(int64(lose(c, min(perBubble, total-i*perBubble))))
					leaderships.Add(int64(c.Oracle.Leaderships()))
				})
			})
		}
	})
	took := time.Since(began)
	sum := siteFigures{leaderships: leaderships.Load(), faults: int64(total), writes: writes.Load()}
	sum.report(t, "losses", took, processorTime()-before)
	t.Logf("%d losses in %v: %.0f a minute", total, took.Round(time.Millisecond), float64(total)/took.Minutes())
}

// lose loses n leaders, in each way first and then as the seed decides, and returns how many
// writes were acknowledged meanwhile.
func lose(c *Cluster, n int) int {
	load := c.StartLoad(4)
	var worst time.Duration
	losses := Losses()
	for i := range n {
		how := losses[i%len(losses)]
		if i >= len(losses) {
			how = losses[c.rng.IntN(len(losses))]
		}
		worst = max(worst, c.Lose(how))
	}
	load.Stop()
	c.Agree(successionLimit)
	load.Verify(c.Peers[0])
	if load.Acked() < n {
		c.T.Errorf("only %d writes were acknowledged in %d losses: the load was none", load.Acked(), n)
	}
	c.T.Logf("%d leaderships, %d writes acknowledged, longest without a leader %v", c.Oracle.Leaderships(), load.Acked(),
		worst)
	return load.Acked()
}

func TestFivePeersLoseTwo(t *testing.T) {
	Simulate(t, 5, 7, func(c *Cluster) {
		load := c.StartLoad(4)
		for range 5 {
			first := c.AwaitLeader(successionLimit)
			c.must(first.Kill())
			second := c.AwaitLeader(successionLimit, first)
			c.Net.Isolate(second.Name)
			c.AwaitLeader(successionLimit, first, second)
			c.Net.HealAll()
			c.must(first.Start())
			c.settle(0)
		}
		load.Stop()
		c.Agree(successionLimit)
		load.Verify(c.Peers[0])
	})
}
