package simtest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/lease/elector"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/host"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// Cluster is a set of whole peers in one bubble: real raft, real commands, real
// sessions and leader loops; simulated hosts, disks, clocks and network.
type Cluster struct {
	T      testing.TB
	Net    *Network
	Peers  []*Peer // only the test's own goroutine changes it
	Oracle *Oracle
	Timing raftstore.Timing
	// Duties are the extra duties of every process of every peer, made anew
	// at each start.
	Duties func(p *Peer) []leader.Duty
	// Introspection is what a process introspects with; nil for none.
	Introspection func(p *Peer, gate *Gate) *app.Introspection
	// Gate is how a process guards its host's door; nil for not at all.
	Gate func(p *Peer, gate *Gate) *app.Gate
	// Failover is how a process looks after kube nodes; nil for not at all.
	Failover func(p *Peer, gate *Gate) *app.Failover
	// Machine is what a peer tells of its host's machine, where peers probe each other.
	Machine func(p *Peer) cluster.Machine
	// Elections are what every peer tells others of.
	Elections []elector.ElectionSource
	// FinalizeAfter is raft.finalize_after.
	FinalizeAfter time.Duration
	// Probes says whether peers probe each other, see cluster.Contacts.
	Probes bool
	// Fatal is told of an entry that a peer does not know.
	Fatal func(p *Peer, err error)
	// RolledBack is told of a peer whose disk holds less than it had acknowledged.
	RolledBack func(p *Peer, err error)

	hosts sync.Map // every *Peer that ever ran, by name
	// roster is Peers for goroutines that run while a schedule replaces some; nil: Peers.
	roster atomic.Pointer[[]*Peer]
	// foundings counts how often a schedule has founded the cluster again.
	foundings atomic.Int64
	ports     *ports // nil: what peers say to each other is simulated
	truth     struct {
		sync.Mutex
		view  fsm.View // at the highest index that newest has seen
		known bool
	}
	rng   *rand.Rand
	ends  sync.WaitGroup // of processes that were superseded
	loads []*Load
	diary diary
}

// Simulate founds a cluster of n peers in a fresh bubble, lets f use it, kills
// what still runs and reports every assertion that was broken.
func Simulate(t *testing.T, n int, seed uint64, f func(c *Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, n, seed)
		defer c.end()
		c.start()
		f(c)
	})
}

// SimulateSite is Simulate for a cluster that introspects: prepare makes the
// site before the peers start.
func SimulateSite(t *testing.T, n int, seed uint64, prepare func(c *Cluster) *Site, f func(c *Cluster, s *Site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, n, seed)
		s := prepare(c)
		defer s.ramdisks.Wait() // they outlive the peers, not the bubble
		defer c.end()
		c.start()
		f(c, s)
	})
}

func (c *Cluster) start() {
	for _, p := range c.Peers {
		c.must(p.Start())
	}
}

// newCluster seeds the disks of n peers that are all voters.
func newCluster(t testing.TB, n int, seed uint64) *Cluster { return seedCluster(t, n, seed, nil) }

// seedCluster is newCluster; the peers have ports of their own if those are not nil.
func seedCluster(t testing.TB, n int, seed uint64, own *ports) *Cluster {
	rng := NewRand(seed)
	c := &Cluster{T: t, Net: NewNetwork(rng), Oracle: &Oracle{}, Timing: raftstore.Normal(), rng: rng, ports: own}
	own.join(c)
	c.Net.acknowledges = func(host string) {
		if p, ok := c.hosts.Load(host); ok {
			p.(*Peer).step("acknowledge")
		}
	}
	c.Duties = func(*Peer) []leader.Duty { return nil }
	c.Introspection = func(*Peer, *Gate) *app.Introspection { return nil }
	c.Gate = func(*Peer, *Gate) *app.Gate { return nil }
	c.Failover = func(*Peer, *Gate) *app.Failover { return nil }
	c.Machine = func(*Peer) cluster.Machine { return cluster.Machine{} }
	c.Fatal = func(p *Peer, err error) { c.Oracle.broken("unknown-entry: %s: %v", p.Name, err) }
	c.RolledBack = func(p *Peer, err error) { c.Oracle.broken("rolled-back: %s: %v", p.Name, err) }
	var voters []raftstore.Server
	for i := range n {
		p := c.newHost(fmt.Sprintf("h%d", i+1))
		c.Peers = append(c.Peers, p)
		c.hosts.Store(p.Name, p)
		voters = append(voters, raftstore.Server{ID: p.Name, Address: p.address(), Voter: true})
	}
	state := c.founded()
	for _, p := range c.Peers {
		c.ports.key(p, state.View())
		disk := p.Disk.Mount(nil)
		c.must(host.Seed(raftstore.Storage{Log: disk, Stable: disk, Snapshots: disk.Snapshots()}, state, voters...))
	}
	return c
}

// newHost returns a host of this name with an empty disk.
func (c *Cluster) newHost(name string) *Peer {
	p := &Peer{Name: name, Disk: NewDisk(c.rng), c: c}
	p.Kernel = newKernel(c, name)
	c.ports.settle(p)
	return p
}

// seats returns the peers; any goroutine may call it.
func (c *Cluster) seats() []*Peer {
	if now := c.roster.Load(); now != nil {
		return *now
	}
	return c.Peers
}

// reseat puts a peer in the place of another, or of itself.
func (c *Cluster) reseat(old, p *Peer) {
	now := slices.Clone(c.Peers)
	for i := range now {
		if now[i] == old {
			now[i] = p
		}
	}
	c.Peers = now
	c.roster.Store(&now)
}

// everyHost lists the hosts of all peers that ever ran.
func (c *Cluster) everyHost() (hosts []*Peer) {
	c.hosts.Range(func(_, p any) bool {
		hosts = append(hosts, p.(*Peer))
		return true
	})
	return hosts
}

// founded is the first state, with every peer a member.
func (c *Cluster) founded() *fsm.State {
	cert, key := c.ports.authority()
	state, err := fsm.Founded(fsm.Found{
		ClusterID: clusterID, CACert: cert, CAKey: key, GossipKey: make([]byte, 32), Member: c.Peers[0].member(),
	}, time.Now())
	c.must(err)
	for i, p := range c.Peers[1:] {
		data, err := fsm.Encode(fsm.Header{}, membership.PutMember{Member: p.member()})
		c.must(err)
		c.must(state.Apply(fsm.Entry{Index: uint64(i + 2), Term: 1, Data: data}).Err())
	}
	return state
}

func (p *Peer) member() membership.Member {
	return membership.Member{ID: p.Name, Name: p.Name, Address: p.hostport(), Gossip: p.gossip, Version: fsm.Version}
}

// commit sends a command through the leader until it is answered.
func (c *Cluster) commit(cmd fsm.Command) {
	c.T.Helper()
	c.Until(2*successionLimit, fmt.Sprintf("%T is committed", cmd), func() bool {
		leader := c.Leader()
		if leader == nil {
			return false
		}
		ctx, cancel := context.WithTimeout(context.Background(), successionLimit)
		defer cancel()
		res, err := leader.Core().Session.Do(ctx, "", cmd)
		return err == nil && res.Err() == nil
	})
}

func (c *Cluster) must(err error) {
	c.T.Helper()
	if err != nil {
		c.T.Fatal(err)
	}
}

// end kills the processes and tells what went wrong.
func (c *Cluster) end() {
	c.Net.HealAll()
	for _, l := range c.loads {
		l.Stop()
	}
	for _, p := range c.Peers {
		p.Disk.Thaw()
		if err := p.Kill(); err != nil {
			c.T.Errorf("kill %s: %v", p.Name, err)
		}
	}
	c.ends.Wait()
	c.ports.linger()
	for _, fault := range c.Oracle.Faults() {
		c.T.Errorf("broken assertion %s", fault)
	}
}

// Peer returns the peer with this name.
func (c *Cluster) Peer(name string) *Peer {
	p, ok := c.hosts.Load(name)
	if !ok {
		c.T.Fatalf("no peer is called %q", name)
	}
	return p.(*Peer)
}

// pollEvery is the grain of waiting, in virtual time.
const pollEvery = 5 * time.Millisecond

// Until waits, at most limit of virtual time, until done says so.
func (c *Cluster) Until(limit time.Duration, what string, done func() bool) {
	c.T.Helper()
	for end := time.Now().Add(limit); !done(); time.Sleep(pollEvery) {
		if time.Now().After(end) {
			c.T.Fatalf("%s: not within %v; %s\n%s", what, limit, c.describe(), &c.diary)
		}
	}
}

// newest returns the newest state that any process has ever applied, whether that
// process runs, is stopping or has ended. Raft applies what is committed and nothing
// else, so no later state takes an entry back; a worker may act on an entry that,
// of all peers, only the stopping one has applied yet. False before the first start.
func (c *Cluster) newest() (fsm.View, bool) {
	c.truth.Lock()
	defer c.truth.Unlock()
	for _, p := range c.everyHost() {
		proc := p.latest.Load()
		if proc == nil {
			continue
		}
		if v := proc.core.Store.View(); !c.truth.known || v.Index() > c.truth.view.Index() {
			c.truth.view, c.truth.known = v, true
		}
	}
	return c.truth.view, c.truth.known
}

func (c *Cluster) describe() (text string) {
	for _, p := range c.Peers {
		text += p.describe()
	}
	return text
}

func (p *Peer) describe() string {
	core := p.Core()
	if core == nil {
		return fmt.Sprintf("%s is dead; ", p.Name)
	}
	stats, leader := core.Store.Stats(), ""
	if l, ok := core.Store.Leader(); ok {
		leader = l.ID
	}
	v := core.Store.View()
	session, lives := v.SessionOf(p.Name)
	return fmt.Sprintf(
		"%s %s term %d applied %d token %v paused %v fit %v session %v refuses %q flags %+v follows %q of %v; ", p.Name,
		stats.Role, stats.Term, stats.Applied, core.Runner.Token(), p.paused(), core.Fitness.Fit(), lives, session.Refuses,
		v.MemberFlags(p.Name), leader, core.Store.Servers())
}

// Leader returns the peer whose duties run, nil if none or more than one seem
// to: that is no fault, a peer that is cut off takes a moment to notice.
func (c *Cluster) Leader() *Peer {
	var found *Peer
	for _, p := range c.seats() {
		if core := p.Core(); core != nil && !p.paused() && !core.Runner.Token().IsZero() {
			if found != nil {
				return nil
			}
			found = p
		}
	}
	return found
}

// AwaitLeader waits for a leader other than the ones named.
func (c *Cluster) AwaitLeader(limit time.Duration, not ...*Peer) *Peer {
	c.T.Helper()
	var found *Peer
	c.Until(limit, "a leader", func() bool {
		found = c.Leader()
		for _, p := range not {
			if found == p {
				found = nil
			}
		}
		return found != nil
	})
	return found
}

// Others returns the peers but one.
func (c *Cluster) Others(not *Peer) (out []*Peer) {
	for _, p := range c.Peers {
		if p != not {
			out = append(out, p)
		}
	}
	return out
}

// watch follows one process for the oracle: elections, and the token in the
// state, which never goes back.
func (c *Cluster) watch(p *Peer, proc *process) {
	core := proc.core
	go func() {
		seen := uint64(0)
		for proc.port.ctx.Err() == nil {
			role, changed := core.Store.Role()
			if role.Leader && role.Change != seen {
				c.Oracle.elected(p.Name, core.Store.Stats().Term, role.Since)
			}
			seen = role.Change
			select {
			case <-changed:
			case <-proc.port.ctx.Done():
			}
		}
	}()
	go func() {
		last := fsm.View(core.Store.View())
		for proc.port.ctx.Err() == nil {
			v, changed := core.Store.Changed()
			if v.Floor() < last.Floor() {
				c.Oracle.broken("token-rises: on %s the token went from %v back to %v", p.Name, last.Floor(), v.Floor())
			}
			last = v
			select {
			case <-changed:
			case <-proc.port.ctx.Done():
			}
		}
	}()
}

// duties are those of one process: the prover, and what the test adds.
func (c *Cluster) duties(p *Peer, proc *process) []leader.Duty {
	return append(c.Duties(p), prover{p, proc})
}

// prover is a duty that proves leadership again and again and tells the oracle
// each time; it also notes the beginning of each leadership.
type prover struct {
	peer *Peer
	proc *process
}

// proveEvery is how often a prover proves: as often as the gate of issue 4
// refreshes its lease, and a little odd.
const proveEvery = 173 * time.Millisecond

// Name implements leader.Duty.
func (prover) Name() string { return "prover" }

// Run implements leader.Duty.
func (d prover) Run(ctx context.Context, a leader.Authority) error {
	oracle := d.peer.c.Oracle
	view := d.proc.core.Store.View()
	if now := view.Leadership().Token; now < a.Token() {
		oracle.broken("barrier-first: %s began its duties under token %v with a state that names %v", d.peer.Name, a.Token(),
			now)
	}
	oracle.began(d.peer.Name, a.Token())
	d.peer.leadToken.Store(uint64(a.Token()))
	term := view.Leadership().Term
	for {
		d.proc.gate.Wait(ctx.Done())
		t0 := time.Now()
		limited, cancel := context.WithTimeout(ctx, time.Second)
		err := a.Confirm(limited, t0)
		cancel()
		d.proc.gate.Wait(ctx.Done())
		if err == nil {
			oracle.proved(d.peer.Name, term, t0)
		}
		if until, ok := a.Succeeds(0, math.MaxUint64); ok {
			oracle.told(d.peer.Name, term, until)
		}
		select {
		case <-time.After(proveEvery):
		case <-ctx.Done():
			return nil
		}
	}
}

// Agree waits until all peers have applied the same and compares their states.
func (c *Cluster) Agree(limit time.Duration) {
	c.T.Helper()
	c.Until(limit, "equal indices on all peers", func() bool {
		first := c.Peers[0].Core()
		for _, p := range c.Peers {
			if first == nil || p.Core() == nil || !sameView(first.Store.View(), p.Core().Store.View()) {
				return false
			}
		}
		return true
	})
	first := c.Peers[0].Core().Store.View()
	for _, p := range c.Peers {
		v := p.Core().Store.View()
		if err := v.Check(); err != nil {
			c.Oracle.broken("check-clean: %s: %v", p.Name, err)
		}
		if sameView(first, v) && v.Hash() != first.Hash() {
			c.Oracle.broken("equal-hash: %s and %s differ at index %d", c.Peers[0].Name, p.Name, v.Index())
		}
	}
}
