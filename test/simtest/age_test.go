package simtest

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/testenv"
)

const (
	// agesEnv is how many hand-overs TestHandOverByAge makes, and seedEnv the first seed.
	agesEnv = "TRIVET_SIM_AGES"
	// agesPerCluster is how many of them one cluster sees.
	agesPerCluster = 40
)

// TestHandOverByAge loses leaders while they prove, write, acknowledge, answer a question
// about ages, or are frozen by a hypervisor, with links cut in one direction, members that
// come and go, voters that restart, and a second leader lost right after the first. Hosts
// differ in firewall.lease and firewall.freeze. At no instant do two hosts let PXE through or
// have the address (one-door, one-address), no proof begins later than a new leader was told
// (no-older-proof), and most doors open by the age of the last proof.
func TestHandOverByAge(t *testing.T) {
	t.Parallel()
	usual := 80
	if testing.Short() {
		usual = 30
	}
	wanted, first := countFrom(t, agesEnv, usual), uint64(countFrom(t, seedEnv, 1))
	began := time.Now()
	var mu sync.Mutex
	var all handOverFigures
	t.Run("clusters", func(t *testing.T) {
		for i := range (wanted + agesPerCluster - 1) / agesPerCluster {
			seed, n := first+uint64(i), min(agesPerCluster, wanted-i*agesPerCluster)
			t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
				t.Parallel()
				f := handOversByAge(t, seed, n)
				mu.Lock()
				defer mu.Unlock()
				all = all.plus(f)
			})
		}
	})
	t.Logf("%v, in %v", all, time.Since(began).Round(time.Millisecond))
	testenv.Count(t, "ages.hand_overs", float64(all.count()))
	if !t.Failed() && len(all.byAge) < len(all.inFull) {
		t.Errorf("age-is-used: %v", all)
	}
}

// handOversByAge makes n hand-overs in one cluster, every third one of five peers. It ends
// with the first fault.
func handOversByAge(t *testing.T, seed uint64, n int) (f handOverFigures) {
	t.Helper()
	peers := 3
	if seed%3 == 0 {
		peers = 5
	}
	rng := NewRand(seed)
	Simulate(t, peers, seed, func(c *Cluster) {
		for _, p := range c.Peers {
			p.Kernel.lease = []time.Duration{300, 400, 400, 700, 1500}[rng.IntN(5)] * time.Millisecond
			p.Kernel.freeze = []time.Duration{0, 300, 1000, 1000}[rng.IntN(4)] * time.Millisecond
		}
		c.withDoors(&PortTable{})
		c.settle(0)
		work := newNemesis(c, nil)
		for plots := 0; f.count() < n && len(c.Oracle.Faults()) == 0; plots++ {
			if plots > 4*n {
				t.Fatalf("%d schedules, and only %v", plots, f)
			}
			c.awaitHolder(work)
			s := lossSchedule(rng, hostNames(peers))
			work.run(s)
			if len(c.Oracle.Faults()) > 0 {
				t.Logf("seed %d, schedule %d: %v\n%s\n%s", seed, plots, s, c.describe(), &c.diary)
			}
			f = c.Oracle.doors.figures()
		}
	})
	return f
}

// TestFrozenHolder has a hypervisor freeze the leader's host for as long as firewall.freeze
// allows for, and keeps its process from noticing: no other host opens, or takes the address,
// while what its kernel holds is in force (one-door, one-address).
func TestFrozenHolder(t *testing.T) {
	t.Parallel()
	Simulate(t, 3, 370, func(c *Cluster) {
		for _, p := range c.Peers {
			p.Kernel.freeze = time.Second
		}
		c.withDoors(&PortTable{})
		work := newNemesis(c, nil)
		for range 4 {
			c.awaitHolder(work)
			old := c.Leader()
			resume := work.freeze(old, nil)
			c.Until(doorLimit, "another host opens and takes the address", func() bool {
				p := c.OpenDoor()
				return p != nil && p != old && c.Holder() == p
			})
			resume()
			time.Sleep(10 * time.Second) // in a bubble
		}
	})
}

// awaitHolder waits until every peer follows one leader, whose host lets PXE through and has
// the address.
func (c *Cluster) awaitHolder(work *nemesis) {
	c.T.Helper()
	c.Until(recoveryLimit, "every peer follows a leader that has door and address", func() bool {
		work.restart()
		l := c.Leader()
		return l != nil && c.followed(0) && c.OpenDoor() == l && c.Holder() == l
	})
}

// What a schedule of a loss is made of, by when it comes: before the loss, as the loss, and
// after it.
var (
	beforeLoss = []string{
		"bare-majority", "bare-majority", "cut-one-way", "heartbeats-stall", "entries-stall", "lossy", "disk-slow",
		"disk-hangs",
		"snapshot", "kernel-busy", "kernel-busy", "pause",
	}
	lossOfLeader = []string{
		"kill", "kill", "stop", "pause", "isolate", "mute", "deaf", "disk-hangs", "transfer", "freeze", "freeze", "freeze",
		"cut-at-swap", "cut-at-swap", "cut-at-swap",
		"pause-at-arm", "pause-at-swap", "pause-swapped", "pause-at-put", "pause-stamped", "pause-at-ack",
	}
	afterLoss = []string{"kill", "kill", "pause-asked", "pause-at-age", "pause-stamped", "pause-at-ack", "cut-one-way",
		"mute", "lossy", "kernel-busy", "transfer", "disk-slow"}
)

// lossSchedule is a random schedule around one loss of the leader, or two in turn.
func lossSchedule(rng *rand.Rand, hosts []string) (s Schedule) {
	const ms = time.Millisecond
	add := func(from []string, least, most time.Duration, lasts time.Duration, host string) {
		kind := from[rng.IntN(len(from))]
		f := Fault{At: max(0, between(rng, least, most)), For: between(rng, shortestFault, lasts), Kind: kind, Host: host}
		if faultKinds[kind].link {
			f.Peer = hosts[rng.IntN(len(hosts))]
		}
		s = append(s, f)
	}
	some := func() string {
		if rng.IntN(3) > 0 {
			return leaderHost
		}
		return hosts[rng.IntN(len(hosts))]
	}
	loss := between(rng, 300*ms, 1500*ms)
	for range rng.IntN(3) {
		add(beforeLoss, 0, loss, 2000*ms, some())
	}
	if rng.IntN(3) == 0 {
		add([]string{"transfer"}, loss-10*ms, loss+10*ms, ms, leaderHost)
	}
	if rng.IntN(4) == 0 {
		add([]string{"join", "observer"}, loss-1000*ms, loss+500*ms, 3000*ms, some())
	}
	add(lossOfLeader, loss, loss, 3000*ms, leaderHost)
	if rng.IntN(2) == 0 {
		add(lossOfLeader, loss+100*ms, loss+2500*ms, 3000*ms, leaderHost)
	}
	for range rng.IntN(3) {
		add(afterLoss, loss, loss+1500*ms, 1000*ms, some())
	}
	for i := range s {
		s[i].At, s[i].For = s[i].At.Round(ms), s[i].For.Round(ms)
	}
	slices.SortStableFunc(s, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return s
}
