package simtest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector"
)

// Site is a room full of simulated bare-metal machines and the Ironic that
// knows them. Every peer reaches it through a client of its own, and every call
// that changes something is judged at the moment it is sent.
type Site struct {
	c        *Cluster
	ramdisks sync.WaitGroup

	mu       sync.Mutex
	machines map[string]*Machine // by node
	// strangers are machines that Ironic did not know at first, by their BMC's
	// address. Their UUID is that of their node, "" until they have one.
	strangers map[string]*Machine
	cut       map[string]bool // peers from which Ironic cannot be reached
	listing   func(all []string) ([]string, error)
	trouble   Trouble
	powered   []time.Time // when a machine was powered on
	// expects are the callbacks that Ironic waits for itself, by node.
	expects map[string]*expected
	shown   map[string]bool // the nodes of which Ironic shows the ports
}

// Trouble decides how much longer a call about a node takes and whether it
// fails instead of having an effect.
type Trouble func(peer, call, node string) (more time.Duration, err error)

// Machine is one node: what Ironic says of it, and what it does.
type Machine struct {
	UUID, MAC string
	// Silent machines boot and never call back.
	Silent bool
	Slow   time.Duration // how much longer than others it boots
	Asks   *Peer         // the peer that it posts to first; nil: any

	power   string
	boots   int // each is one power-on
	patched map[int]int
}

// NewSite returns a site with n machines and makes the cluster introspect it
// with the hooks; call it before the first Start of a peer.
func NewSite(c *Cluster, n int, conf config.Inspection, hooks ...inspector.Hook) *Site {
	s := &Site{c: c, machines: make(map[string]*Machine), strangers: make(map[string]*Machine), cut: make(map[string]bool)}
	for i := range n {
		m := &Machine{
			UUID: fmt.Sprintf("00000000-0000-4000-8000-%012x", i+1), MAC: fmt.Sprintf("52:54:00:00:%02x:%02x", i/256, i%256),
			power: ironic.PowerOff, patched: make(map[int]int),
		}
		s.machines[m.UUID] = m
	}
	c.Introspection = func(p *Peer, gate *Gate) *app.Introspection {
		notes, left := p.notes.begin()
		client := &siteClient{s, p.Name, gate}
		return &app.Introspection{
			Config: conf, Name: p.Name, Ironic: client, Inband: client, Hooks: hooks, Notes: notes, Memory: notes,
			Unfinished: left,
		}
	}
	return s
}

// Nodes returns the UUIDs of all machines, in order.
func (s *Site) Nodes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.machines))
}

// Machine returns one machine.
func (s *Site) Machine(node string) *Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machines[node]
}

// Cut takes Ironic away from a peer, or gives it back.
func (s *Site) Cut(peer string, away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut[peer] = away
}

// List replaces what Ironic answers to a list of all nodes.
func (s *Site) List(answer func(all []string) ([]string, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listing = answer
}

// Trouble makes calls slow or fail; nil ends it.
func (s *Site) Trouble(t Trouble) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = t
}

// takeBack says that a backup is restored: what was applied after it may be applied again.
func (s *Site) takeBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.machines {
		clear(m.patched)
	}
}

// remove takes machines away, and Ironic's knowledge of them.
func (s *Site) remove(nodes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, node := range nodes {
		delete(s.machines, node)
	}
}

// judge is asked at the moment when a change of a node is sent.
func (s *Site) judge(peer, node, what string) {
	v, ok := s.c.newest()
	if !ok {
		return
	}
	claim, held := v.ClaimOf(node)
	if !held || claim.Peer != peer {
		s.c.Oracle.broken("claim-held: %s sent %s for %s without its claim (held: %v, by %q)", peer, what, node, held,
			claim.Peer)
	}
	if rec, _ := v.Record(node); what == ironic.PowerReboot && len(rec.Attributes.MACs) == 0 {
		s.c.Oracle.broken("known-before-power: %s powers %s on before its callback can be recognised", peer, node)
	}
}

// siteClient is one peer's connection to Ironic.
type siteClient struct {
	site *Site
	peer string
	gate *Gate
}

// errAway is what a peer gets that cannot reach Ironic.
func errAway(call string) error {
	return &ironic.Error{Call: call, Message: "connection refused"}
}

// send is one call on its way: the process may be stopped before it, and the
// guard is asked. It returns how much longer than others the call takes.
func (c *siteClient) send(ctx context.Context, call, node string) (more time.Duration, err error) {
	c.gate.Wait(ctx.Done())
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err := ironic.Allowed(ctx); err != nil {
		return 0, err
	}
	c.site.mu.Lock()
	away, trouble := c.site.cut[c.peer], c.site.trouble
	c.site.mu.Unlock()
	switch {
	case away:
		return 0, errAway(call)
	case trouble != nil:
		return trouble(c.peer, call, node)
	}
	return 0, nil
}

// travel is how long a call takes: mostly little, sometimes longer than a
// leader lives.
func (c *siteClient) travel(ctx context.Context, more time.Duration) error {
	d := more + time.Duration(c.site.c.rng.Int64N(int64(20*time.Millisecond)))
	if c.site.c.rng.IntN(20) == 0 {
		d += time.Duration(c.site.c.rng.Int64N(int64(2 * time.Second)))
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read makes a call that changes nothing.
func (c *siteClient) read(ctx context.Context, call, node string) error {
	more, err := c.send(ctx, call, node)
	if err != nil {
		return err
	}
	return c.travel(ctx, more)
}

// change makes a call that changes a node; it takes effect when it is sent.
func (c *siteClient) change(ctx context.Context, call, node, what string, effect func(*Machine)) error {
	more, err := c.send(ctx, call, node)
	if err != nil {
		return err
	}
	c.site.judge(c.peer, node, what)
	c.site.mu.Lock()
	if m := c.site.machines[node]; m != nil {
		effect(m)
	}
	c.site.mu.Unlock()
	return c.travel(ctx, more)
}

// Node implements inspector.Ironic.
func (c *siteClient) Node(ctx context.Context, ref string) (ironic.Node, error) {
	if err := c.read(ctx, "GET node", ref); err != nil {
		return ironic.Node{}, err
	}
	c.site.mu.Lock()
	defer c.site.mu.Unlock()
	m := c.site.machines[ref]
	if m == nil {
		return ironic.Node{}, fmt.Errorf("%w: %s", ironic.ErrNoNode, ref)
	}
	return m.node(), nil
}

func (m *Machine) node() ironic.Node {
	return ironic.Node{UUID: m.UUID, Provision: "manageable", Power: m.power}
}

// PatchNode implements inspector.Ironic.
func (c *siteClient) PatchNode(ctx context.Context, node string, _ []ironic.Patch) (out ironic.Node, err error) {
	err = c.change(ctx, "PATCH node", node, "patch", func(m *Machine) {
		m.patched[m.boots]++
		if m.patched[m.boots] > 1 {
			c.site.c.Oracle.broken("applied-once: %s was patched %d times for boot %d", node, m.patched[m.boots], m.boots)
		}
		out = m.node()
	})
	return out, err
}

// NodeIDs implements inspector.Ironic.
func (c *siteClient) NodeIDs(ctx context.Context) ([]string, error) {
	if err := c.read(ctx, "GET nodes", ""); err != nil {
		return nil, err
	}
	all := c.site.Nodes()
	c.site.mu.Lock()
	answer := c.site.listing
	c.site.mu.Unlock()
	if answer != nil {
		return answer(all)
	}
	return all, nil
}

// NodeNames implements judge.Names: a node of the site is called after its UUID.
func (c *siteClient) NodeNames(ctx context.Context) (names []ironic.NodeName, err error) {
	ids, err := c.NodeIDs(ctx)
	for _, id := range ids {
		names = append(names, ironic.NodeName{UUID: id, Name: "node-" + id})
	}
	return names, err
}

// PowerValid implements inspector.Ironic.
func (c *siteClient) PowerValid(ctx context.Context, node string) (bool, string, error) {
	return true, "", c.read(ctx, "GET validate", node)
}

// SetBootDevice implements inspector.Ironic.
func (c *siteClient) SetBootDevice(ctx context.Context, node, _ string, _ bool) error {
	return c.change(ctx, "PUT boot_device", node, "boot device", func(*Machine) {})
}

// SetPower implements inspector.Ironic.
func (c *siteClient) SetPower(ctx context.Context, node, target string) error {
	return c.change(ctx, "PUT power", node, target, func(m *Machine) {
		m.power = target
		if target == ironic.PowerReboot {
			m.power = "power on"
			m.boots++
			c.site.powered = append(c.site.powered, time.Now())
			boot := m.boots
			c.site.ramdisks.Go(func() { c.site.ramdisk(m, boot) })
		}
	})
}

// Ports implements inspector.Ironic.
func (c *siteClient) Ports(ctx context.Context, node string) ([]ironic.Port, error) {
	if err := c.read(ctx, "GET ports", node); err != nil {
		return nil, err
	}
	c.site.mu.Lock()
	defer c.site.mu.Unlock()
	if m := c.site.machines[node]; m != nil {
		return []ironic.Port{{UUID: node, Node: node, Address: m.MAC}}, nil
	}
	return nil, nil
}

// CreatePort implements inspector.Ironic.
func (c *siteClient) CreatePort(ctx context.Context, p ironic.Port) (ironic.Port, error) {
	return p, c.change(ctx, "POST port", p.Node, "port", func(*Machine) {})
}

// PatchPort implements inspector.Ironic.
func (c *siteClient) PatchPort(ctx context.Context, port string, _ []ironic.Patch) error {
	return c.change(ctx, "PATCH port", port, "port", func(*Machine) {})
}

// DeletePort implements inspector.Ironic.
func (c *siteClient) DeletePort(ctx context.Context, port string) error {
	return c.change(ctx, "DELETE port", port, "port", func(*Machine) {})
}

// Ping implements inspector.Ironic.
func (c *siteClient) Ping(context.Context) error {
	c.site.mu.Lock()
	defer c.site.mu.Unlock()
	if c.site.cut[c.peer] {
		return &ironic.Error{Call: "GET /", Status: http.StatusBadGateway}
	}
	return nil
}
