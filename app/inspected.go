package app

import (
	"context"
	"errors"
	"strings"

	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// inspections are what Ironic itself inspects by some of its interfaces.
type inspections struct {
	ironic     *ironic.Client
	interfaces []string
}

// Inspected implements firewall.Inspections.
func (i inspections) Inspected(ctx context.Context) ([]string, error) {
	nodes, err := i.ironic.Inspected(ctx, i.interfaces)
	for n, node := range nodes {
		nodes[n] = strings.ToLower(node)
	}
	return nodes, err
}

// MACs implements firewall.Inspections. An address that is no MAC is left
// out, as in the blacklist: the filter matches Ethernet frames.
func (i inspections) MACs(ctx context.Context, node string) ([]string, error) {
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
