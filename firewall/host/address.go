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
// to that. The tables are there for as long as the peer runs, since to build and to remove
// them takes up to a tenth of a second. Between Remove and Arm they let everything out:
// what another program carries on a host that does not hold the address is none of their
// business.
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
	address, err := floatingip.New(c)
	if err != nil {
		return nil, err
	}
	ip, err := config.FloatingAddress(c.Address)
	if err != nil {
		return nil, fmt.Errorf("floating_ip.address: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
	defer cancel()
	tables := nftables.NewAddress(ip)
	if err := tables.Build(ctx); err != nil {
		log.Warn("gate floating IP failed; after a fault of this host another waits a second more before it takes the address",
			"address", c.Address, "err", err)
		return &Address{Address: address}, nil
	}
	return &Address{address, &gate{tables.Lease(), tables, address}}, nil
}

// Lease is what lets the address out of this host; nil if this kernel cannot gate it.
func (a *Address) Lease() firewall.Swap {
	if a.gate == nil {
		return nil
	}
	return a.gate
}

// Close removes the tables unless this host has the address still that Put gave it, and
// lets go of the kernel's socket.
func (a *Address) Close(ctx context.Context) error {
	if a.gate == nil {
		return nil
	}
	closed := a.gate.Lease.Close()
	left, err := a.Given(ctx)
	if err == nil && !left {
		err = a.gate.tables.Remove(ctx)
	}
	return errors.Join(closed, err)
}

// Remove implements firewall.Address: the neighbours lose the address first, because the
// kernel may take its time with the rest. When this host does not have it any more, or has
// it as its own, nothing is gated.
func (a *Address) Remove(ctx context.Context) error {
	if a.gate == nil {
		return a.Address.Remove(ctx)
	}
	hidden, err := a.gate.tables.Hide(ctx), a.Address.Remove(ctx)
	if err != nil && !errors.Is(err, floatingip.ErrForeign) {
		return errors.Join(hidden, err)
	}
	return errors.Join(err, a.gate.tables.Release(ctx))
}

// Arm implements firewall.Swap. It builds what is missing of the tables, or is not ours.
// An address that is this host's own it does not gate: that would cut the host off.
func (g *gate) Arm(ctx context.Context, d time.Duration) error {
	if err := g.address.Own(ctx); err != nil {
		return errors.Join(err, g.tables.Release(ctx))
	}
	if err := g.Lease.Shut(ctx); err != nil {
		return err
	}
	return g.Lease.Arm(ctx, d)
}
