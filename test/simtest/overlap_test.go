package simtest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/lease/elector"
	"github.com/trivet-ha/trivet/test/history"
)

const (
	// schedulesEnv is how many schedules TestOverlappingFaults makes.
	schedulesEnv = "TRIVET_SIM_SCHEDULES"
)

// scheduleTime is for how long the faults of one schedule begin.
const scheduleTime = 2 * time.Minute

// recoveryLimit bounds how long after the last fault a cluster has a leader that
// every peer follows: a peer whose disk hung does not lead for 30 s.
const recoveryLimit = 90 * time.Second

// TestOverlappingFaults strikes clusters with random schedules of faults that overlap,
// with every duty at work: writes, leases, introspections, elections, PXE service,
// floating IP, and failover of kube nodes. No promise is broken meanwhile, and after the last fault everything
// works again. Every sixth cluster has five peers. A schedule that fails is printed
// with the way to replay and to shrink it.
func TestOverlappingFaults(t *testing.T) {
	if peers, seed, s := chosenSchedule(t); len(s) > 0 {
		var one overlapFigures
		overlap(t, peers, seed, s, &one)
		if one.undecided > 0 {
			t.Errorf("leases: the history is undecided after %d steps of the search", one.steps)
		}
		return
	}
	var all overlapFigures
	began := time.Now()
	wanted := countFrom(t, schedulesEnv, 8)
	t.Run("schedules", func(t *testing.T) {
		for i := range wanted {
			peers, seed := 3, uint64(5000+i)
			if i%6 == 5 {
				peers = 5
			}
			s := RandomSchedule(NewRand(seed), hostNames(peers), scheduleTime)
			t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
				t.Parallel()
				t.Cleanup(func() {
					if t.Failed() {
						t.Log(wayToReplay(peers, seed, s))
					}
				})
				overlap(t, peers, seed, s, &all)
			})
		}
	})
	t.Logf(
		"%d schedules in %v: %d leaderships, %d writes, %d operations on leases (judged in at most %d steps, %d undecided), %d introspections, faults %v",
		wanted, time.Since(began).Round(time.Second), all.leaderships, all.writes, all.leases, all.steps, all.undecided,
		all.introspections, all.struck)
	// One history in a hundred or so takes longer than the search may.
	if all.undecided > wanted/4 {
		t.Errorf("leases: the histories of %d of %d schedules are undecided after %d steps of the search each", all.undecided,
			wanted, history.MostSteps)
	}
	for kind := range faultKinds {
		if wanted >= 12 && all.struck[kind] == 0 {
			t.Errorf("no schedule struck with %s", kind)
		}
	}
}

// chosenSchedule is the one that the environment names, with its seed and number of
// peers, or none.
func chosenSchedule(t *testing.T) (peers int, seed uint64, s Schedule) {
	t.Helper()
	if text := os.Getenv(scheduleEnv); text != "" {
		var err error
		if s, err = ParseSchedule(text); err != nil {
			t.Fatal(err)
		}
	}
	return countFrom(t, peersEnv, 3), uint64(countFrom(t, seedEnv, 1)), s
}

// overlapFigures sum up what happened.
type overlapFigures struct {
	mu                                          sync.Mutex
	leaderships, writes, leases, introspections int
	undecided                                   int   // histories of leases whose search for an order was given up
	steps                                       int64 // of the dearest search for an order of a history of leases
	struck                                      map[string]int
}

func hostNames(n int) (names []string) {
	for i := range n {
		names = append(names, "h"+strconv.Itoa(i+1))
	}
	return names
}

// overlap carries out one schedule.
func overlap(t *testing.T, peers int, seed uint64, s Schedule, all *overlapFigures) {
	t.Helper()
	const machines = 12
	var leases history.History
	var kube *KubeSite
	SimulateSite(t, peers, seed, func(c *Cluster) *Site {
		GuardDoors(c, &PortTable{})
		for i, p := range c.Peers {
			p.Kernel.freeze = time.Duration(i) * 300 * time.Millisecond
		}
		c.Elections = []elector.ElectionSource{{}}
		kube = attachKube(c, 6, brisk())
		return NewSite(c, machines, quick(), patcher{})
	}, func(c *Cluster, site *Site) {
		defer kube.begin()()
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		keys := c.withKeys(ctx)
		c.settle(0)
		work := c.everyClient(site, &leases)
		defer work.stop()
		n := newNemesis(c, kube)
		n.run(s)
		c.Until(recoveryLimit, "every peer follows one leader after the last fault", func() bool {
			n.restart()
			return c.followed(0)
		})
		accepted := work.end()
		c.Agree(recoveryLimit)
		work.writers.Verify(c.Peers[0])
		site.awaitEnds(5*time.Minute, accepted)
		c.awaitDoor()
		kube.awaitSettled()
		stop()
		keys.work.Wait()
		all.mu.Lock()
		defer all.mu.Unlock()
		all.leaderships += c.Oracle.Leaderships()
		all.writes += work.writers.Acked()
		all.introspections += len(accepted)
		if all.struck == nil {
			all.struck = make(map[string]int)
		}
		for kind, count := range n.struck {
			all.struck[kind] += count
		}
	})
	steps, decided := judgeLeases(t, leases.Ops())
	all.mu.Lock()
	defer all.mu.Unlock()
	if !decided {
		all.undecided++
	}
	all.leases += len(leases.Ops())
	all.steps = max(all.steps, steps)
}

// clients are what asks a cluster for something while it is struck.
type clients struct {
	writers   *Load
	stop      context.CancelFunc
	running   sync.WaitGroup
	borrowers []*history.Borrower

	mu       sync.Mutex
	accepted []string
}

// everyClient starts writers, borrowers of leases, operators that introspect, and
// programs that ask who leads.
func (c *Cluster) everyClient(site *Site, leases *history.History) *clients {
	ctx, stop := context.WithCancel(context.Background())
	w := &clients{writers: c.StartLoad(2), stop: stop}
	for id := range 3 {
		b := newBorrower(c, leases, id)
		w.borrowers = append(w.borrowers, b)
		w.running.Go(func() { b.Run(ctx) })
	}
	for i, node := range site.Nodes() {
		first := time.Duration(i) * scheduleTime / time.Duration(len(site.Nodes()))
		w.running.Go(func() {
			time.Sleep(first) // in a bubble
			if site.begin(node) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.accepted = append(w.accepted, node)
			}
		})
	}
	said := &heard{c: c}
	for _, p := range c.Peers {
		w.running.Go(func() {
			for ctx.Err() == nil {
				if s, err := p.elects(ofRaft); err == nil {
					said.note(p.Name, s)
				}
				time.Sleep(173 * time.Millisecond) // in a bubble
			}
		})
	}
	return w
}

// end stops the clients and returns which introspections were accepted.
func (w *clients) end() []string {
	w.writers.Stop()
	w.stop()
	w.running.Wait()
	for _, b := range w.borrowers {
		b.SettleUp()
	}
	return w.accepted
}

// wayToReplay says how to replay a schedule that failed, and how to shrink it: that
// takes many processes, which this test does not start.
func wayToReplay(peers int, seed uint64, s Schedule) string {
	env := replay(peers, seed, s)
	set := strings.Replace(env[0], "=", "='", 1) + "' " + strings.Join(env[1:], " ")
	return fmt.Sprintf(
		"replay its %d faults with\n%s go test -count=1 -run '^TestOverlappingFaults$' ./test/simtest\nand look for fewer that are enough with\n%s go test -count=1 -tags e2e -v -run '^TestSmallerSchedule$' ./test/simtest",
		len(s), set, set)
}

// A schedule survives being written and read, and has every kind of fault sooner or later.
func TestScheduleIsReadBack(t *testing.T) {
	kinds := make(map[string]bool)
	for seed := range uint64(40) {
		s := RandomSchedule(NewRand(seed), hostNames(3), scheduleTime)
		back, err := ParseSchedule(s.String())
		if err != nil || !slices.Equal(s, back) {
			t.Fatalf("%v: %v became %v", err, s, back)
		}
		for _, f := range s {
			kinds[f.Kind] = true
		}
	}
	if len(kinds) != len(faultKinds) {
		t.Errorf("40 schedules have faults of %v only", slices.Sorted(maps.Keys(kinds)))
	}
	for _, wrong := range []string{"", "1s+1s kill", "1+1s kill h1", "1s kill h1"} {
		if _, err := ParseSchedule(wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}

// Shrink finds the two faults of sixty that fail together.
func TestShrink(t *testing.T) {
	var s Schedule
	for i := range 60 {
		s = append(s, Fault{At: time.Duration(i) * time.Second, Kind: "kill", Host: "h1"})
	}
	tries := 0
	least := Shrink(s, 100, func(less Schedule) bool {
		tries++
		return strings.Contains(less.String(), "17s") && strings.Contains(less.String(), "44s")
	})
	if len(least) != 2 || tries > 60 {
		t.Errorf("%v after %d tries", least, tries)
	}
}
