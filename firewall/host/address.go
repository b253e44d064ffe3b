package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/trivet-ha/trivet/firewall/floatingip"
	"github.com/trivet-ha/trivet/firewall/nftables"
)

// AddressGate lets the floating IP out of this host while its lease is in force. The
// driver of the PXE filter makes no difference to it.
type AddressGate struct {
	*nftables.Lease
	tables  *nftables.Address
	address *floatingip.Address
}

// NewAddressGate returns the gate of an address, or says why this host's kernel cannot
// have one.
func NewAddressGate(ip netip.Addr, address *floatingip.Address) (*AddressGate, error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
	defer cancel()
	tables := nftables.NewAddress(ip)
	if err := tables.Supported(ctx); err != nil {
		return nil, fmt.Errorf("gate the floating IP in nf_tables: %w", err)
	}
	return &AddressGate{tables.Lease(), tables, address}, nil
}

// Close lets go of the kernel's socket. If this host does not have the address, the gate
// is removed: another program may carry the address here from now on. Otherwise it stays,
// shut, until the next start.
func (g *AddressGate) Close(ctx context.Context) error {
	held, err := g.address.Held(ctx)
	if err == nil && !held {
		err = g.tables.Remove(ctx)
	}
	return errors.Join(err, g.Lease.Close())
}
