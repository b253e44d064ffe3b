package simtest

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/trivet-ha/trivet/test/history"
)

// leaseTTL is that of every lease here; it is short enough to end under its holder
// again and again, and as long as the cluster's timing demands.
const leaseTTL = 4600 * time.Millisecond

// leaseRuns is how many histories are made: few by default, 200 in `make sim`.
func leaseRuns(t *testing.T) int { return countFrom(t, "TRIVET_SIM_LEASES", 6) }

// TestLeasesAreLinearizable: whatever befalls the peers, clients that acquire, renew,
// release and write under leases see what one keeper of leases could have told them,
// who ends none early, revives none, and lets nobody write under a token that is not
// the lease's.
func TestLeasesAreLinearizable(t *testing.T) {
	began := time.Now()
	var mu sync.Mutex
	counts := make(map[string]int)
	dearest := int64(0) // history, by the steps of the search for an order
	judgeHistory := func(t *testing.T, n int) {
		t.Parallel()
		var h history.History
		Simulate(t, 3, uint64(500+n), func(c *Cluster) { c.lend(&h, n) })
		steps, decided := judgeLeases(t, h.Ops())
		if !decided {
			t.Errorf("leases: a history of %d operations is undecided after %d steps of the search", len(h.Ops()), steps)
		}
		mu.Lock()
		defer mu.Unlock()
		dearest = max(dearest, steps)
		for _, op := range h.Ops() {
			counts[fmt.Sprintf("%s: %s", op.Input.(history.LeaseCall).Verb, op.Output.(history.Told).Said)]++
		}
	}
	runs := 0
	untilSeen(t, 5, func() string { return lacking(counts) }, func(int) {
		t.Run("runs", func(t *testing.T) {
			for range leaseRuns(t) {
				n := runs
				runs++
				t.Run(strconv.Itoa(n), func(t *testing.T) { judgeHistory(t, n) })
			}
		})
	})
	total := 0
	for _, n := range counts {
		total += n
	}
	t.Logf("%d runs, %d operations in %v, judged in at most %d steps: %v", runs, total,
		time.Since(began).Round(time.Millisecond), dearest, counts)
}

// lacking returns an outcome that is in no history yet, "" if all are.
func lacking(counts map[string]int) string {
	for _, must := range []string{"acquire: yes", "acquire: held", "renew: yes", "renew: over", "release: yes",
		"write: yes", "write: fenced", "look: over"} {
		if counts[must] == 0 {
			return must
		}
	}
	return ""
}

// judgeLeases fails the test unless one keeper of leases could have told clients this
// history. It returns the steps of the search, and whether it came to an end.
func judgeLeases(t *testing.T, ops []porcupine.Operation) (steps int64, decided bool) {
	t.Helper()
	settled := history.SettledLeases(ops)
	result, steps := history.Linearized(history.Leases(), settled)
	if result == porcupine.Illegal {
		t.Errorf("leases: a history of %d operations is %v after %d steps of the search%s", len(ops), result, steps,
			picture(t, settled))
	}
	for _, broken := range history.Tokens(ops) {
		t.Errorf("leases: %s", broken)
	}
	return steps, result != porcupine.Unknown
}

// picture writes a page that shows a bad history, if TRIVET_SIM_PICTURE names a
// directory for it.
func picture(t *testing.T, ops []porcupine.Operation) string {
	dir := os.Getenv("TRIVET_SIM_PICTURE")
	if dir == "" {
		return ""
	}
	path, err := history.Picture(history.Leases(), ops, dir, strings.ReplaceAll(t.Name(), "/", "-"))
	if err != nil {
		t.Error(err)
	}
	return ", see " + path
}

const (
	// leaseFaults is how many times the peers of one run are hurt.
	leaseFaults = 4
	// leaseSteady is how long they are left alone before: leases end by themselves.
	leaseSteady = 3 * time.Second
)

// lend runs clients while the peers are hurt, and asks at the end what became of
// whatever a client has given up on.
func (c *Cluster) lend(h *history.History, run int) {
	c.settle(0)
	var clients []*history.Borrower
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	for id := range 8 {
		b := newBorrower(c, h, id)
		clients = append(clients, b)
		done.Go(func() { b.Run(ctx) })
	}
	losses := Losses()
	for n := range leaseFaults {
		c.hurt(losses[(run+n)%len(losses)])
	}
	stop()
	done.Wait()
	c.settle(0)
	for _, b := range clients {
		b.SettleUp()
	}
}

// hurt loses the leader in one way, and then, while clocks on walls jump, cuts or
// stops another for a while, which may cost the quorum.
func (c *Cluster) hurt(how Loss) {
	for _, p := range c.Peers {
		p.SetSkew(time.Duration(c.rng.IntN(20)-10) * time.Hour)
	}
	time.Sleep(leaseSteady) // in a bubble
	c.Lose(how)
	victim := c.Peers[c.rng.IntN(len(c.Peers))]
	other := c.Peers[c.rng.IntN(len(c.Peers))]
	long := time.Duration(300+c.rng.IntN(2200)) * time.Millisecond
	switch c.rng.IntN(4) {
	case 0:
		victim.Pause()
		time.Sleep(long) // in a bubble
		victim.Resume()
	case 1:
		c.Net.CutBoth(victim.Name, other.Name)
		time.Sleep(long)
	case 2:
		c.Net.Isolate(victim.Name)
		c.Net.IsolateInbound(other.Name)
		time.Sleep(long)
	default:
		time.Sleep(long)
	}
	c.Net.HealAll()
	c.settle(0)
}
