package simtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/inspector"
)

// NodeWhole implements inspector.Ironic.
func (c *siteClient) NodeWhole(ctx context.Context, node string) (map[string]any, error) {
	n, err := c.Node(ctx, node)
	return map[string]any{"uuid": n.UUID, "provision_state": n.Provision}, err
}

// PatchDriver implements inspector.Ironic.
func (c *siteClient) PatchDriver(ctx context.Context, node string, patch []ironic.Patch) (ironic.Node, error) {
	return c.PatchNode(ctx, node, patch)
}

// AddTrait implements inspector.Ironic.
func (c *siteClient) AddTrait(ctx context.Context, node, trait string) error {
	return c.change(ctx, "PUT trait", node, "trait "+trait, func(*Machine) {})
}

// RemoveTrait implements inspector.Ironic.
func (c *siteClient) RemoveTrait(ctx context.Context, node, trait string) error {
	return c.change(ctx, "DELETE trait", node, "trait "+trait, func(*Machine) {})
}

// CreateNode implements inspector.Ironic. What is created is the stranger with
// that BMC, which must not be created twice.
func (c *siteClient) CreateNode(ctx context.Context, n ironic.NewNode) (ironic.Node, error) {
	more, err := c.send(ctx, "POST node", n.UUID)
	if err != nil {
		return ironic.Node{}, err
	}
	c.site.judge(c.peer, n.UUID, "create")
	known := c.site.create(n)
	if err := c.travel(ctx, more); err != nil {
		return ironic.Node{}, err
	}
	if known {
		return ironic.Node{}, fmt.Errorf("%w: %s", ironic.ErrNodeExists, n.UUID)
	}
	return ironic.Node{UUID: n.UUID, Provision: "enroll"}, nil
}

// create makes a stranger known, and reports whether the node is there already.
func (s *Site) create(n ironic.NewNode) (known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.machines[n.UUID] != nil {
		return true
	}
	m := s.strangers[fmt.Sprint(n.DriverInfo["ipmi_address"])]
	switch {
	case m == nil:
		s.c.Oracle.broken("one-node: %s was made of no machine", n.UUID)
	case m.UUID != "":
		s.c.Oracle.broken("one-node: %s and %s were made of the machine %s", m.UUID, n.UUID, m.MAC)
	default:
		m.UUID = n.UUID
		s.machines[n.UUID] = m
	}
	return false
}

// Strangers adds machines that Ironic does not know, and boots them; each posts
// its document until somebody gives a final answer.
func (s *Site) Strangers(n int) {
	for i := range n {
		m := &Machine{MAC: fmt.Sprintf("52:54:00:ff:00:%02x", i), power: "power on", boots: 1, patched: make(map[int]int)}
		bmc := fmt.Sprintf("198.18.0.%d", i+1)
		s.mu.Lock()
		s.strangers[bmc] = m
		s.mu.Unlock()
		s.ramdisks.Go(func() { s.stranger(m, bmc) })
	}
}

// stranger boots and posts; one in two posts to two peers at once, and one in
// three has gained an interface by the second time.
func (s *Site) stranger(m *Machine, bmc string) {
	time.Sleep(bootLeast + time.Duration(s.c.rng.Int64N(int64(20*time.Second)))) // in a bubble
	post := func(more string) {
		document := fmt.Appendf(nil,
			`{"inventory":{"interfaces":[{"name":"eth0","mac_address":%q},{"name":"lo","mac_address":"00:00:00:00:00:00"}%s],"bmc_address":%q}}`,
			m.MAC, more, bmc)
		if err := s.postStrange(m, document); err != nil {
			s.c.T.Logf("stranger %s: %v", m.MAC, err)
		}
	}
	var posts sync.WaitGroup
	defer posts.Wait()
	if s.c.rng.IntN(2) == 0 {
		more := ""
		if s.c.rng.IntN(3) == 0 {
			more = fmt.Sprintf(`,{"name":"eth1","mac_address":"52:54:00:fe%s"}`, m.MAC[11:])
		}
		posts.Go(func() { post(more) })
	}
	post("")
}

// postStrange delivers a stranger's document, as post does.
func (s *Site) postStrange(m *Machine, document []byte) error {
	err := errNoAnswer
	for range postTries {
		p := s.c.Peers[s.c.rng.IntN(len(s.c.Peers))]
		if core := p.Core(); core != nil && !p.paused() {
			ctx, cancel := context.WithTimeout(context.Background(), postLimit)
			var node string
			node, err = core.Service.Continue(ctx, document)
			cancel()
			s.mu.Lock()
			if err == nil && node != m.UUID {
				s.c.Oracle.broken("look-up: the callback of stranger %s, node %q, was taken for %s", m.MAC, m.UUID, node)
			}
			s.mu.Unlock()
		}
		var said *inspector.Refusal
		if err == nil || errors.As(err, &said) && said.Status < http.StatusInternalServerError {
			return err
		}
		time.Sleep(postPause) // in a bubble
	}
	return err
}

// AllPorts implements inspector.Ironic.
func (c *siteClient) AllPorts(ctx context.Context) (all []ironic.Port, err error) {
	if err := c.read(ctx, "GET ports", ""); err != nil {
		return nil, err
	}
	c.site.mu.Lock()
	defer c.site.mu.Unlock()
	for _, m := range c.site.machines {
		if c.site.shown == nil || c.site.shown[m.UUID] {
			all = append(all, ironic.Port{UUID: m.UUID, Node: m.UUID, Address: m.MAC})
		}
	}
	return all, nil
}

// NodesWithBMC implements inspector.Ironic.
func (c *siteClient) NodesWithBMC(ctx context.Context) (nodes []ironic.Node, err error) {
	if err := c.read(ctx, "GET nodes", ""); err != nil {
		return nil, err
	}
	c.site.mu.Lock()
	defer c.site.mu.Unlock()
	for _, m := range c.site.machines {
		nodes = append(nodes, m.node())
	}
	return nodes, nil
}
