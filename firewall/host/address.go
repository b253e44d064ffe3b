package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/floatingip"
	"github.com/trivet-ha/trivet/firewall/nftables"
)

// Address is the floating IP as this host carries it, and what keeps it from its
// neighbours while no lease lets it out. The driver of the PXE filter makes no difference
// to that. The host of a leader alone has a gate: what another program carries elsewhere is
// none of its business.
type Address struct {
	*floatingip.Address
	gate *gate // nil: this kernel cannot have one
}

// gate is the lease of the address, and its tables. To build them and to remove them
// takes up to a tenth of a second, which no hand-over waits for.
type gate struct {
	*nftables.Lease
	tables  *nftables.Address
	address *floatingip.Address
	log     *slog.Logger

	mu   sync.Mutex // of all that builds or removes tables
	turn int        // counts Arm and Remove: what was begun before is not wanted any more
	work sync.WaitGroup
	// aside runs something next to its caller: work.Go.
	aside func(func())
}

// NewAddress returns the floating IP of a configuration. That the kernel cannot gate it is
// said in the log, and costs other hosts a longer wait.
func NewAddress(c config.FloatingIP, log *slog.Logger) (*Address, error) {
	a, err := ungated(c, log)
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
func ungated(c config.FloatingIP, log *slog.Logger) (*Address, error) {
	address, err := floatingip.New(c)
	if err != nil {
		return nil, err
	}
	ip, err := config.FloatingAddress(c.Address)
	if err != nil {
		return nil, fmt.Errorf("floating_ip.address: %w", err)
	}
	tables := nftables.NewAddress(ip)
	g := &gate{Lease: tables.Lease(), tables: tables, address: address, log: log}
	g.aside = g.work.Go
	return &Address{address, g}, nil
}

// Lease is what lets the address out of this host; nil if this kernel cannot gate it.
func (a *Address) Lease() firewall.Swap {
	if a.gate == nil {
		return nil
	}
	return a.gate
}

// Close returns when nothing is removed any more, and lets go of the kernel's socket.
func (a *Address) Close() error {
	if a.gate == nil {
		return nil
	}
	a.gate.work.Wait()
	return a.gate.Lease.Close()
}

// Conflict is that of the address. Who asks whether it is free is about to take it, so the
// gate is built meanwhile.
func (a *Address) Conflict(ctx context.Context, wait time.Duration) (holder string, err error) {
	if a.gate != nil {
		turn := a.gate.nextTurn(0)
		a.gate.aside(func() { a.gate.buildAhead(ctx, turn) })
	}
	return a.Address.Conflict(ctx, wait)
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
	turn := a.gate.nextTurn(1)
	a.gate.aside(func() { a.gate.removeTables(turn) })
	return err
}

// nextTurn returns the turn, by steps later than the present one.
func (g *gate) nextTurn(steps int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turn += steps
	return g.turn
}

// buildAhead builds the tables unless they are not wanted any more. What fails, Arm says.
func (g *gate) buildAhead(ctx context.Context, turn int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.turn == turn && g.address.Own(ctx) == nil {
		_ = g.tables.Mend(ctx) // Arm does it again
	}
}

// Arm implements firewall.Swap. It builds what is missing of the gate, or is not ours,
// unless this host has the address as its own: then it would cut this host off.
func (g *gate) Arm(ctx context.Context, d time.Duration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turn++
	if err := g.address.Own(ctx); err != nil {
		return errors.Join(err, g.tables.Remove(ctx))
	}
	if err := g.Lease.Shut(ctx); err != nil {
		return err
	}
	return g.Lease.Arm(ctx, d)
}

// removeLimit bounds the removal of the tables.
const removeLimit = 10 * time.Second

// removeTables removes the tables unless they were armed again.
func (g *gate) removeTables(turn int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.turn != turn {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit)
	defer cancel()
	if err := g.tables.Remove(ctx); err != nil {
		g.log.Warn("remove gate of floating IP failed; no other program on this host can carry the address", "err", err)
	}
}
