package host

import (
	"context"
	"errors"
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
	tables *nftables.Address
	gate   *gate // nil: this kernel cannot have one
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
	ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
	defer cancel()
	a := &Address{Address: address, tables: nftables.NewAddress(address.IP())}
	if err := a.tables.Build(ctx); err != nil {
		log.Warn("gate floating IP failed; after a fault of this host another waits a second more before it takes the address",
			"address", c.Address, "err", err)
		return a, nil
	}
	a.gate = &gate{a.tables.Lease(), a.tables, address}
	return a, nil
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
	var closed error
	if a.gate != nil {
		closed = a.gate.Lease.Close()
	}
	return errors.Join(closed, removeTables(ctx, a.Address, a.tables))
}

// removeTables removes the tables unless this host has the address still that Put gave it.
func removeTables(ctx context.Context, a *floatingip.Address, tables *nftables.Address) error {
	if left, err := a.Given(ctx); err != nil || left {
		return err
	}
	return tables.Remove(ctx)
}

// releaseLimit bounds the end of what gates the address, which has a time of its own: the
// kernel may have taken all that there was for the address.
const releaseLimit = time.Second

// Remove implements firewall.Address: the neighbours lose the address first, because the
// kernel may take its time with the rest. When this host does not have it any more, or has
// it as its own, nothing is gated.
func (a *Address) Remove(ctx context.Context) error {
	hidden, err := a.tables.Hide(ctx), a.Address.Remove(ctx)
	if err != nil && !errors.Is(err, floatingip.ErrForeign) {
		return errors.Join(hidden, err)
	}
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	if a.gate == nil { // a part of the tables, or those of a process that was killed, may be there
		return errors.Join(err, a.tables.Remove(own))
	}
	return errors.Join(err, a.tables.Release(own))
}

// Arm implements firewall.Swap. It builds what is missing of the tables, or is not ours.
// An address that is this host's own it does not gate: that would cut the host off. While it
// cannot tell, the gate stays as it is.
func (g *gate) Arm(ctx context.Context, d time.Duration) error {
	err := g.address.Own(ctx)
	if errors.Is(err, floatingip.ErrForeign) {
		return errors.Join(err, g.tables.Release(ctx))
	}
	if err == nil {
		err = g.Lease.Shut(ctx)
	}
	if err != nil {
		return err
	}
	return g.Lease.Arm(ctx, d)
}
