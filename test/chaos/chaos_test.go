//go:build e2e

package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest"
	"github.com/trivet-ha/trivet/test/testenv"
)

const (
	// shortChaos is for how long the short form strikes.
	shortChaos = 25 * time.Second
	// pieceLength is that of one piece of a long run.
	pieceLength = 2 * time.Minute
	// longestFault is what SIGSTOP and the others last at most; in the short form
	// shortFault.
	longestFault = time.Minute
	shortFault   = 5 * time.Second
)

// totals are the figures of a run.
type totals struct {
	minutes                                         float64
	faults, operations, unknown, violations, undone int
	struck                                          map[string]int
}

// TestChaos strikes real peers while clients write down what they are told, and judges
// that.
func TestChaos(t *testing.T) {
	testenv.NeedRoot(t, "ip", "tc", "nft", "mount", "umount", "mkfs.ext4", "fsfreeze")
	if os.Getenv(labtest.BinaryEnv) == "" {
		t.Setenv(labtest.BinaryEnv, labtest.StoppableBinary(t).Binary)
	}
	total, piece, longest := duration(t, "TRIVET_CHAOS", shortChaos), pieceLength, longestFault
	if total <= shortChaos {
		piece, longest = total, shortFault
	}
	seed := uint64(time.Now().Unix())
	if text := os.Getenv("TRIVET_CHAOS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("TRIVET_CHAOS_SEED: %v", err)
		}
	}
	all := totals{struck: make(map[string]int)}
	testenv.Count(t, "chaos.seed", float64(seed))
	for began := time.Now(); time.Since(began) < total && !t.Failed(); seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { strikePiece(t, seed, piece, longest, &all) })
	}
	for _, name := range slices.Sorted(maps.Keys(all.struck)) {
		t.Logf("%4d × %s", all.struck[name], name)
	}
	testenv.Count(t, "chaos.minutes", all.minutes)
	testenv.Count(t, "chaos.faults", float64(all.faults))
	testenv.Count(t, "chaos.operations", float64(all.operations))
	testenv.Count(t, "chaos.unknown", float64(all.unknown))
	testenv.Count(t, "chaos.undecided", float64(all.undone))
	testenv.Count(t, "chaos.violations", float64(all.violations))
	if all.faults == 0 || all.operations == 0 || all.unknown == 0 {
		t.Error("nothing was struck, asked or lost: this is no test")
	}
}

// duration reads one from the environment.
func duration(t *testing.T, name string, short time.Duration) time.Duration {
	text := os.Getenv(name)
	if text == "" {
		return short
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d
}

// strikePiece is one piece: a cluster, its clients, and faults for a while.
func strikePiece(t *testing.T, seed uint64, piece, longest time.Duration, all *totals) {
	c := &clients{cluster: newCluster(t, site{machines: machineCount}, "TRIVET_INSPECTION_TIMEOUT=20s"), seed: seed}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	c.start(ctx)
	n := &nemesis{cluster: c.cluster, rng: rand.New(rand.NewPCG(seed, 0)), longest: longest,
		down: make(map[*labtest.Peer]bool), struck: make(map[string]int)}
	began := time.Now()
	n.run(began.Add(piece))
	stop()
	c.recovered(n)
	c.running.Wait()
	undecided := c.judge()
	c.WaitSame()
	all.minutes += time.Since(began).Minutes()
	for name, count := range n.struck {
		all.struck[name] += count
		all.faults += count
	}
	all.operations += int(c.operations.Load())
	all.unknown += int(c.unknown.Load())
	all.undone += undecided
	all.violations += c.violations
	t.Logf("seed %d: %d operations, %d of unknown outcome, %d peers ended by themselves", seed, c.operations.Load(),
		c.unknown.Load(), n.exits)
}

// recovered waits until three peers vote again.
func (c *clients) recovered(n *nemesis) {
	c.Eventually(settleLimit, "three peers serve again", func() error {
		n.revive()
		for _, p := range c.Peers {
			s, err := p.Status()
			if err != nil {
				return err
			}
			if !s.Ready || s.Quorum.Live != len(c.Peers) {
				return fmt.Errorf("%s is ready: %v, sees %d peers", p.Name, s.Ready, s.Quorum.Live)
			}
		}
		return nil
	})
	c.WaitVoters(len(c.Peers))
}
