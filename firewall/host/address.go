package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/floatingip"
	"github.com/trivet-ha/trivet/firewall/nftables"
)

// Address is the floating IP as this host carries it, and what keeps it from its
// neighbours while no lease lets it out. The driver of the PXE filter makes no difference
// to that. There is a gate from Arm to Remove alone: what another program carries, on a
// host that does not hold the address, is none of its business.
type Address struct {
	*floatingip.Address
	gate *gate // nil: this kernel cannot have one
}

// gate is the lease of the address, and its tables.
type gate struct {
	*nftables.Lease
	tables  *nftables.Address
	address *floatingip.Address
}

// NewAddress returns the floating IP of a configuration. That the kernel cannot gate it is
// said in the log, and costs other hosts a longer wait.
func NewAddress(c config.FloatingIP, log *slog.Logger) (*Address, error) {
	a, err := ungated(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
	defer cancel()
	if err := a.gate.tables.Supported(ctx); err != nil {
		log.Warn("gate floating IP failed; after a fault of this host another waits a second more before it takes the address",
			"address", c.Address, "err", err)
		a.gate = nil
	}
	return a, nil
}

// ungated is the floating IP of a configuration, on a kernel that was not asked yet.
func ungated(c config.FloatingIP) (*Address, error) {
	address, err := floatingip.New(c)
	if err != nil {
		return nil, err
	}
	ip, err := config.FloatingAddress(c.Address)
	if err != nil {
		return nil, fmt.Errorf("floating_ip.address: %w", err)
	}
	tables := nftables.NewAddress(ip)
	return &Address{address, &gate{tables.Lease(), tables, address}}, nil
}

// Lease is what lets the address out of this host, and by how much longer others wait
// without it.
func (a *Address) Lease() (lease firewall.Swap, slack time.Duration) {
	if a.gate == nil {
		return nil, firewall.LateAddress
	}
	return a.gate, 0
}

// Close lets go of the kernel's socket; what is in force ends by itself.
func (a *Address) Close() error {
	if a.gate == nil {
		return nil
	}
	return a.gate.Lease.Close()
}

// Remove implements firewall.Address: the neighbours lose the address first, because the
// kernel may take its time with the rest. The gate goes when this host does not have the
// address any more, or has it as its own.
func (a *Address) Remove(ctx context.Context) error {
	if a.gate == nil {
		return a.Address.Remove(ctx)
	}
	hidden, err := a.gate.tables.Hide(ctx), a.Address.Remove(ctx)
	if err != nil && !errors.Is(err, floatingip.ErrForeign) {
		return errors.Join(hidden, err)
	}
	if removed := a.gate.tables.Remove(ctx); removed != nil {
		return removed // more than what Remove says of the address: it may be silent
	}
	return err
}

// Arm implements firewall.Swap. It builds what is missing of the gate, or is not ours,
// unless this host has the address as its own: then it would cut this host off.
func (g *gate) Arm(ctx context.Context, d time.Duration) error {
	if err := g.address.Own(ctx); err != nil {
		return errors.Join(err, g.tables.Remove(ctx))
	}
	if err := g.Lease.Shut(ctx); err != nil {
		return err
	}
	return g.Lease.Arm(ctx, d)
}
