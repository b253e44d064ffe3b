package app

import (
	"context"
	"errors"
	"log/slog"

	"github.com/trivet-ha/trivet/fsm/valid"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// inspections are what Ironic itself inspects by some of its interfaces. One goroutine
// uses them.
type inspections struct {
	ironic     inspectedIronic
	interfaces []string
	log        *slog.Logger
	told       string // the node without a UUID that the log has
}

// inspectedIronic lists what Ironic inspects; *ironic.Client has it.
type inspectedIronic interface {
	Inspected(ctx context.Context, interfaces []string) ([]string, error)
	Addresses(ctx context.Context, node string) ([]string, error)
}

// Inspected implements firewall.Inspections. A node without a UUID is left out, and its
// machine does not boot: it keeps no other's from booting.
func (i *inspections) Inspected(ctx context.Context) ([]string, error) {
	listed, err := i.ironic.Inspected(ctx, i.interfaces)
	if err != nil {
		return nil, err
	}
	odd := ""
	nodes := make([]string, 0, len(listed))
	for _, node := range listed {
		if valid.Node(node) != nil {
			odd = node[:min(len(node), 64)]
			continue
		}
		nodes = append(nodes, node)
	}
	if odd != i.told && odd != "" {
		i.log.Warn("let a machine that Ironic inspects boot failed: its node has no UUID", "node", odd)
	}
	i.told = odd
	return nodes, nil
}

// MACs implements firewall.Inspections. An address that is no MAC is left
// out, as in the blacklist: the filter matches Ethernet frames.
func (i *inspections) MACs(ctx context.Context, node string) ([]string, error) {
	addresses, err := i.ironic.Addresses(ctx, node)
	if errors.Is(err, ironic.ErrNoNode) {
		return nil, nil
	}
	macs := make([]string, 0, len(addresses))
	for _, address := range addresses {
		if mac, ok := identify.CanonicalMAC(address); ok {
			macs = append(macs, mac)
		}
	}
	return macs, err
}
