// A seed fixes raft's time-outs, too, which it draws from the global generator.
//
//go:debug randseednop=0
package simtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/lease/elector"
	"github.com/trivet-ha/trivet/test/testenv"
)

// The environment of TestSites: how many sites, how many machines each has, for how long
// each is struck in virtual time, how long the longest pause between two faults is, how
// long operators rest between two introspections and writers between two writes, and from
// which seed on.
const (
	sitesEnv    = "TRIVET_SIM_SITES"
	machinesEnv = "TRIVET_SIM_MACHINES"
	siteTimeEnv = "TRIVET_SIM_SITE_TIME"
	pauseEnv    = "TRIVET_SIM_SITE_PAUSE"
	restEnv     = "TRIVET_SIM_SITE_REST"
)

// siteShape is how large a site is and for how long it is struck.
type siteShape struct {
	machines  int
	total     time.Duration
	pause     time.Duration // the longest between two faults
	operators int
	rest      time.Duration // of operators and writers
}

// TestSites runs whole sites: peers with the peers' port of the product (TLS identities,
// raft, forwarder, probes and gossip), every duty at work, machines that are introspected,
// kube nodes, leases and elections, and random faults that overlap what operators do:
// backups, restores, recoveries, members that join, leave and are replaced, certificates,
// an upgrade that is held back and finalized, lists, guard rails and fence devices that
// change. Every third seed has five peers. Usually it is one small site; the environment
// makes it 10,000 machines and days, see make sim. A seed that fails is told as the
// shortest schedule that still does, with the command that repeats it.
func TestSites(t *testing.T) {
	shape := siteShape{machines: countFrom(t, machinesEnv, 60), total: spanFrom(t, siteTimeEnv, 90*time.Second),
		pause: spanFrom(t, pauseEnv, longestPause), rest: spanFrom(t, restEnv, 0)}
	shape.operators = min(32, shape.machines/8)
	first, wanted := countFrom(t, seedEnv, 57_301), countFrom(t, sitesEnv, 1)
	sum := &siteFigures{struck: make(map[string]int)}
	if peers, seed, s := chosenSchedule(t); len(s) > 0 {
		for _, said := range shape.attempt(t, trial{"TestSites", seed, peers, s}, sum) {
			t.Error(said)
		}
		return
	}
	began, before := time.Now(), processorTime()
	for i := range wanted {
		tr := trial{"TestSites", uint64(first + i), 3, nil}
		if tr.seed%3 == 2 { // also where each run is one site
			tr.peers = 5
		}
		tr.schedule = randomSchedule(NewRand(tr.seed), hostNames(tr.peers), shape.total, siteKinds(), shape.pause)
		if said := shape.attempt(t, tr, sum); len(said) > 0 {
			t.Errorf("%d broken assertions: %s", len(said), strings.Join(said, "\n"))
			t.Error(tr.story(said, func(tr trial) []string { return shape.attempt(t, tr, &siteFigures{}) }))
		}
	}
	sum.report(t, "site", time.Since(began), processorTime()-before)
	t.Logf("%d sites of %d machines for %v each in %v: %v", wanted, shape.machines, shape.total,
		time.Since(began).Round(time.Second), sum)
}

// spanFrom is countFrom for a duration.
func spanFrom(t *testing.T, name string, usual time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d
}

// processorTime is what this process has used of all cores.
func processorTime() time.Duration {
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// siteKinds are the faults of a site: all but those that stop a process in the middle of a
// simulated exchange, which the peers' port of the product does not have.
func siteKinds() []string {
	kinds := slices.Concat(slices.Collect(maps.Keys(faultKinds)), slices.Collect(maps.Keys(operatorKinds)))
	kinds = slices.DeleteFunc(kinds, func(kind string) bool {
		return slices.Contains(
			[]string{"heartbeats-stall", "entries-stall", "pause-at-ack", "pause-asked", "pause-at-age"}, kind)
	})
	slices.Sort(kinds)
	return kinds
}

// siteFigures sum up what happened on sites.
type siteFigures struct {
	leaderships, writes, introspections, grants, faults int64
	foundings, replaced, finalized, renewed             int64
	virtual                                             time.Duration
	struck                                              map[string]int
}

// report prints the figures for test/proof.
func (f *siteFigures) report(t *testing.T, subject string, took, processor time.Duration) {
	t.Helper()
	for name, value := range map[string]float64{
		"leader_changes": float64(f.leaderships), "writes": float64(f.writes), "faults": float64(f.faults),
		"introspections": float64(f.introspections), "foundings": float64(f.foundings), "virtual_h": f.virtual.Hours(),
		"leader_changes_per_minute":                 float64(f.leaderships) / took.Minutes(),
		"leader_changes_per_minute_of_a_whole_core": float64(f.leaderships) / max(processor, time.Millisecond).Minutes(),
	} {
		testenv.Count(t, "sim."+subject+"."+name, value)
	}
}

// String tells the figures.
func (f *siteFigures) String() string {
	return fmt.Sprintf(
		"%d leader changes, %d faults, %d writes, %d introspections, %d grants, %d foundings, %d replaced, %d finalized, %d renewed: %v",
		f.leaderships, f.faults, f.writes, f.introspections, f.grants, f.foundings, f.replaced, f.finalized, f.renewed,
		f.struck)
}

// attempt carries out one trial in a bubble of its own and returns what went wrong.
func (shape siteShape) attempt(t *testing.T, tr trial, sum *siteFigures) []string {
	t.Helper()
	//lint:ignore SA1019 raft and memberlist draw from it
	rand.Seed(int64(tr.seed))
	return rehearse(t, func(tb testing.TB) {
		s := shape.build(tb, tr)
		defer s.site.ramdisks.Wait() // they outlive the peers, not the bubble
		defer s.kube.bg.Wait()
		defer s.kube.begin()()
		defer s.end()
		s.start()
		s.settle(0)
		s.holdBack()
		s.liveThrough(tr.schedule, shape, sum)
	})
}

// wholeSite is one cluster with everything that it looks after.
type wholeSite struct {
	*Cluster
	site  *Site
	kube  *KubeSite
	lists *PortTable
}

// build makes a site whose peers have not started.
func (shape siteShape) build(tb testing.TB, tr trial) *wholeSite {
	c := seedCluster(tb, tr.peers, tr.seed, &ports{})
	s := &wholeSite{Cluster: c, lists: &PortTable{}}
	GuardDoors(c, s.lists)
	for i, p := range c.Peers {
		p.Kernel.freeze = time.Duration(i%3) * 300 * time.Millisecond
	}
	c.Elections = []elector.ElectionSource{{}}
	s.kube = attachKube(c, returnNodes, restless())
	s.site = NewSite(c, shape.machines, quick(), patcher{})
	var all []ironicports.Port
	for i, node := range s.site.Nodes() {
		all = append(all, ironicports.Port{ID: "port-" + strconv.Itoa(i), MAC: s.site.Machine(node).MAC, Node: node})
	}
	s.lists.Set(all...)
	c.Fatal = func(p *Peer, err error) {
		if !errors.Is(err, fsm.Outdated) || p.Knows != fsm.Version-1 {
			c.Oracle.broken("unknown-entry: %s: %v", p.Name, err)
		}
	}
	return s
}

// holdBack puts the log version of the release before into force.
func (s *wholeSite) holdBack() {
	v, _ := s.newest()
	for _, m := range v.Members() {
		m.Version = fsm.Version - 1
		s.commit(membership.PutMember{Member: m})
	}
}

// liveThrough carries out a schedule under load, waits until everything works again, and adds
// to sum what happened.
func (s *wholeSite) liveThrough(schedule Schedule, shape siteShape, sum *siteFigures) {
	began := time.Now()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	load := s.startLoad(2, max(writePause, shape.rest/60))
	borrowed := &borrowings{c: s.Cluster, newest: make(map[string]fencing.Token)}
	for i := range 3 {
		running.Go(func() { borrowed.run(ctx, fmt.Sprintf("guest-%d", i)) })
	}
	s.askWhoLeads(ctx, &running)
	kubeOperator := &returning{KubeSite: s.kube, c: s.Cluster, seen: make(map[string]bool)}
	attending, stopAttending := context.WithCancel(ctx)
	running.Go(func() {
		for attending.Err() == nil {
			kubeOperator.attend()
			time.Sleep(time.Second) // in a bubble
		}
	})
	work := s.site.operate(shape.operators, 10*time.Minute, shape.rest)
	defer work.abandon()
	n := newNemesis(s.Cluster, s.kube)
	n.operator.site, n.operator.lists, n.operator.load = s.site, s.lists, load
	n.run(schedule)
	s.Until(2*recoveryLimit, "every peer follows one leader after the last fault", func() bool {
		n.restart()
		return s.followed(0)
	})
	load.Stop()
	work.stop()
	s.Agree(recoveryLimit)
	load.Verify(s.Peers[0])
	s.Until(recoveryLimit, "the leader opens and holds the address", func() bool { // former members are heard first
		l := s.Leader()
		return l != nil && s.OpenDoor() == l && s.Holder() == l
	})
	stopAttending()
	kubeOperator.endTrouble()
	sum.leaderships += int64(s.Oracle.Leaderships())
	sum.writes += int64(load.Acked())
	sum.introspections += int64(work.total)
	sum.grants += borrowed.grants.Load()
	sum.foundings += s.foundings.Load()
	sum.replaced += n.did.replaced.Load()
	sum.finalized += n.did.finalized.Load()
	sum.renewed += n.did.renewed.Load()
	sum.virtual += time.Since(began)
	for kind, count := range n.struck {
		sum.faults += int64(count)
		if sum.struck != nil {
			sum.struck[kind] += count
		}
	}
}

// askWhoLeads has programs ask every peer who leads, and compares what they hear.
func (s *wholeSite) askWhoLeads(ctx context.Context, running *sync.WaitGroup) {
	told := &heard{c: s.Cluster}
	for range s.Peers {
		running.Go(func() {
			for ctx.Err() == nil {
				p := s.someone()
				if said, err := p.elects(ofRaft); err == nil {
					told.note(p.Name, said)
				}
				time.Sleep(173 * time.Millisecond) // in a bubble
			}
		})
	}
}

// borrowings are leases that guests take again and again.
type borrowings struct {
	c      *Cluster
	grants atomic.Int64

	mu     sync.Mutex
	newest map[string]fencing.Token // of a grant whose answer has come, by lease
	holder map[string]string
}

// run takes leases by turns until ctx ends. The token of a grant is above that of every
// grant to another holder whose answer had come before it was asked for, also through
// restores.
func (b *borrowings) run(ctx context.Context, guest string) {
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("lease-%d", i%4)
		b.mu.Lock()
		before := b.newest[name]
		b.mu.Unlock()
		if core := b.c.someone().Core(); core != nil {
			asked, cancel := context.WithTimeout(ctx, 5*time.Second)
			res, err := core.Session.Do(asked, "", leases.Grant{Name: name, Holder: guest, TTL: 10 * time.Second})
			cancel()
			if err == nil && res.Code == fsm.OK {
				b.granted(name, guest, before, res.Token)
			}
		}
		time.Sleep(2500 * time.Millisecond) // in a bubble
	}
}

// granted notes a grant.
func (b *borrowings) granted(name, guest string, before, token fencing.Token) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.holder == nil {
		b.holder = make(map[string]string)
	}
	if token < before || token == before && b.holder[name] != guest && b.holder[name] != "" {
		b.c.Oracle.broken("lease-tokens-rise: %s got %s with token %v, %v had been granted before", guest, name, token,
			before)
	}
	if token > b.newest[name] {
		b.newest[name], b.holder[name] = token, guest
	}
	b.grants.Add(1)
}

// A seed that fails is told as a story of few faults: here each run fails that has a kill of
// h2 while h1 is isolated.
func TestStoryIsShort(t *testing.T) {
	s := randomSchedule(NewRand(9), hostNames(3), time.Minute, []string{"pause", "disk-slow", "mute"}, time.Second)
	s = append(s[:len(s)/2:len(s)/2], append(Schedule{
		{At: s[len(s)/2].At, For: 8 * time.Second, Kind: "isolate", Host: "h1"},
		{At: s[len(s)/2].At, For: 4 * time.Second, Kind: "kill", Host: "h2"}}, s[len(s)/2:]...)...)
	again := func(tr trial) []string {
		text := tr.schedule.String()
		if strings.Contains(text, "isolate h1") && strings.Contains(text, "kill h2") {
			return []string{"broken assertion one-door: h1 has it while h2 still does"}
		}
		return nil
	}
	tr := trial{"TestSites", 9, 3, s}
	story := tr.story(again(tr), again)
	for _, want := range []string{"short story: 2 of ", "one-door", scheduleEnv + "='", "isolate h1", "kill h2",
		"^TestSites$"} {
		if !strings.Contains(story, want) {
			t.Errorf("the story lacks %q:\n%s", want, story)
		}
	}
}
