package simtest

import (
	"os"
	"strconv"
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

// TestLosses is the promise of the log, attacked: leaders lost in every way,
// in turn and under load. Bubbles of 40 losses run side by side, so that the
// log of each stays short.
func TestLosses(t *testing.T) {
	const perBubble = 40
	began := time.Now()
	total := lossesWanted(t)
	t.Run("bubbles", func(t *testing.T) {
		for i := range (total + perBubble - 1) / perBubble {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				Simulate(t, 3, uint64(i+1), func(c *Cluster) { lose(c, min(perBubble, total-i*perBubble)) })
			})
		}
	})
	took := time.Since(began)
	t.Logf("%d losses in %v: %.0f a minute", total, took.Round(time.Millisecond), float64(total)/took.Minutes())
}

func lose(c *Cluster, n int) {
	load := c.StartLoad(4)
	var worst time.Duration
	losses := Losses()
	for i := range n {
		worst = max(worst, c.Lose(losses[i%len(losses)]))
	}
	load.Stop()
	c.Agree(successionLimit)
	load.Verify(c.Peers[0])
	if load.Acked() < n {
		c.T.Errorf("only %d writes were acknowledged in %d losses: the load was none", load.Acked(), n)
	}
	c.T.Logf("%d leaderships, %d writes acknowledged, longest without a leader %v", c.Oracle.Leaderships(), load.Acked(),
		worst)
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
