package simtest

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// The tests drive plain hashicorp/raft nodes, three in a bubble.

// trio is a cluster of three nodes on one network.
type trio struct {
	t     *testing.T
	net   *Network
	nodes []*node
}

// node is one host: disk and name outlive its processes.
type node struct {
	id   string
	net  *Network
	disk *Disk

	gate  *Gate
	port  *Transport
	fsm   *journal
	raft  *raft.Raft
	store *Store
}

// simulate runs f on a fresh trio inside a bubble and shuts it down after.
func simulate(t *testing.T, seed uint64, f func(*testing.T, *trio)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rng := NewRand(seed)
		c := &trio{t: t, net: NewNetwork(rng)}
		for _, id := range []string{"a", "b", "c"} {
			c.nodes = append(c.nodes, &node{id: id, net: c.net, disk: NewDisk(rng)})
		}
		for _, n := range c.nodes {
			n.start(t)
		}
		if err := c.nodes[0].raft.BootstrapCluster(c.servers()).Error(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			for _, n := range c.nodes {
				n.kill(t)
			}
		}()
		f(t, c)
	})
}

func (n *node) addr() raft.ServerAddress { return raft.ServerAddress(n.id + ":7350") }

func (c *trio) servers() raft.Configuration {
	var conf raft.Configuration
	for _, n := range c.nodes {
		conf.Servers = append(conf.Servers, raft.Server{ID: raft.ServerID(n.id), Address: n.addr()})
	}
	return conf
}

func (n *node) start(t *testing.T) {
	t.Helper()
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(n.id)
	conf.HeartbeatTimeout = 500 * time.Millisecond
	conf.ElectionTimeout = 500 * time.Millisecond
	conf.LeaderLeaseTimeout = 250 * time.Millisecond
	conf.CommitTimeout = 20 * time.Millisecond
	conf.SnapshotInterval = time.Hour
	conf.TrailingLogs = 1
	conf.NoLegacyTelemetry = true
	n.gate = NewGate()
	conf.Logger = gatedLog{Logger: hclog.NewNullLogger(), gate: n.gate}
	n.store = n.disk.Mount(n.gate)
	n.port = n.net.Endpoint(n.id, n.addr(), n.gate)
	n.fsm = &journal{}
	r, err := raft.NewRaft(conf, n.fsm, n.store, n.store, n.store.Snapshots(), n.port)
	if err != nil {
		t.Fatal(err)
	}
	n.raft = r
}

// kill ends the process as SIGKILL and a power cut do.
func (n *node) kill(t *testing.T) {
	t.Helper()
	n.port.sever()
	n.disk.Crash()
	n.gate.Resume()
	if err := n.raft.Shutdown().Error(); err != nil {
		t.Fatal(err)
	}
}

// until polls in virtual time.
func (c *trio) until(limit time.Duration, what string, done func() bool) time.Duration {
	c.t.Helper()
	start := time.Now()
	for !done() {
		if time.Since(start) > limit { // in a bubble
			c.t.Fatalf("%v have passed, but not: %s", limit, what)
		}
		time.Sleep(time.Millisecond) // in a bubble
	}
	return time.Since(start)
}

// leader waits for a node other than the given ones to lead.
func (c *trio) leader(not ...*node) *node {
	c.t.Helper()
	var found *node
	c.until(5*time.Second, "a new leader", func() bool {
		for _, n := range c.nodes {
			if n.raft.State() == raft.Leader && !slices.Contains(not, n) {
				found = n
			}
		}
		return found != nil
	})
	return found
}

// settled waits for a leader that has applied everything before its own term.
// The first leader after a restart may lose to a later one at once.
func (c *trio) settled() *node {
	c.t.Helper()
	for range 10 {
		if n := c.leader(); n.raft.Barrier(5*time.Second).Error() == nil {
			return n
		}
	}
	c.t.Fatal("ten leaders in a row lost their leadership at once")
	return nil
}

func (c *trio) followers(leader *node) []*node {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(n *node) bool { return n == leader })
}

// write commits entries on the leader, one after the other.
func (c *trio) write(leader *node, format string, count int) {
	c.t.Helper()
	for i := range count {
		if err := leader.raft.Apply(fmt.Appendf(nil, format, i), time.Second).Error(); err != nil {
			c.t.Fatal(err)
		}
	}
}

// agree waits until every node has applied the same entries, want of them.
func (c *trio) agree(want int) {
	c.t.Helper()
	c.until(15*time.Second, fmt.Sprintf("%d entries on every node", want), func() bool {
		for _, n := range c.nodes {
			if len(n.fsm.read()) != want {
				return false
			}
		}
		return true
	})
	for _, n := range c.nodes {
		if !slices.Equal(n.fsm.read(), c.nodes[0].fsm.read()) {
			c.t.Fatalf("%s and %s have applied different entries", n.id, c.nodes[0].id)
		}
	}
}

// gatedLog waits at the gate without a lock; see Gate.Handler.
type gatedLog struct {
	hclog.Logger
	gate *Gate
}

func (l gatedLog) Debug(string, ...any) { l.gate.Wait(nil) }
func (l gatedLog) Info(string, ...any)  { l.gate.Wait(nil) }
func (l gatedLog) Warn(string, ...any)  { l.gate.Wait(nil) }
func (l gatedLog) Error(string, ...any) { l.gate.Wait(nil) }

// journal is a state machine that remembers what was applied.
type journal struct {
	mu      sync.Mutex
	entries []string
}

func (j *journal) read() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.entries
}

func (j *journal) Apply(l *raft.Log) any {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries[:len(j.entries):len(j.entries)], string(l.Data))
	clear(l.Data) // whoever shared this memory would notice
	return nil
}

func (j *journal) Snapshot() (raft.FSMSnapshot, error) { return frozen(j.read()), nil }

func (j *journal) Restore(r io.ReadCloser) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = nil
	return json.NewDecoder(r).Decode(&j.entries)
}

type frozen []string

func (f frozen) Persist(s raft.SnapshotSink) error {
	if err := json.NewEncoder(s).Encode([]string(f)); err != nil {
		return s.Cancel()
	}
	return s.Close()
}

func (f frozen) Release() {}
