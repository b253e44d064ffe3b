package simtest

import (
	"context"
	"fmt"

	"github.com/trivet-ha/trivet/inspector"
)

// NodeWhole implements inspector.Ironic.
func (c *siteClient) NodeWhole(ctx context.Context, node string) (map[string]any, error) {
	n, err := c.Node(ctx, node)
	return map[string]any{"uuid": n.UUID, "provision_state": n.Provision}, err
}

// PatchDriver implements inspector.Ironic.
func (c *siteClient) PatchDriver(ctx context.Context, node string, patch []inspector.Patch) (inspector.Node, error) {
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

// CreateNode implements inspector.Ironic.
func (c *siteClient) CreateNode(ctx context.Context, n inspector.NewNode) (out inspector.Node, err error) {
	known := false
	err = c.change(ctx, "POST node", n.UUID, "create", func(*Machine) { known = true })
	if err == nil && known {
		err = fmt.Errorf("%w: %s", inspector.ErrNodeExists, n.UUID)
	}
	return inspector.Node{UUID: n.UUID, Provision: "enroll"}, err
}

// PortsAt implements inspector.Ironic.
func (c *siteClient) PortsAt(ctx context.Context, mac string) (found []inspector.Port, err error) {
	if err := c.read(ctx, "GET ports", ""); err != nil {
		return nil, err
	}
	c.site.mu.Lock()
	defer c.site.mu.Unlock()
	for _, m := range c.site.machines {
		if m.MAC == mac {
			found = append(found, inspector.Port{UUID: m.UUID, Node: m.UUID, Address: mac})
		}
	}
	return found, nil
}

// NodesWithBMC implements inspector.Ironic.
func (c *siteClient) NodesWithBMC(ctx context.Context) (nodes []inspector.Node, err error) {
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
