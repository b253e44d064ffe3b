package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/host"
	"github.com/trivet-ha/trivet/firewall/recorder"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

const (
	// stopLimit bounds the wait for the record in the log that the door is
	// shut; without it the next leader waits for as long as a door may be open.
	stopLimit = time.Second
	// gateGrace is how long the rules may stay unprogrammed before this peer
	// would rather not lead: so short that another host's door is open before a
	// machine gives up booting, 7.5 s, and long enough to write 10,000 MACs.
	gateGrace = 2 * time.Second
)

// Gate is what a peer needs to guard its host's door, besides the log.
type Gate struct {
	Chains  firewall.Chains
	Lease   firewall.Lease
	Foreign <-chan struct{} // another program may have changed our rules; nil: not watched
	Ports   firewall.PortLister
	// Inspections are those of Ironic itself; nil: they let no machine boot.
	Inspections firewall.Inspections
	// Wire is where machines boot, for the recorder; nil: nothing is recorded.
	Wire recorder.Wire
	// RelaysDropped says to the recorder why what a DHCP relay passes on over IPv4 is dropped; "": it is not.
	RelaysDropped string
	Policy        firewall.Policy
	// Driver and Interface are what the chains are made with, for display.
	Driver    string
	Interface string

	Length  time.Duration // firewall.lease
	Freeze  time.Duration // firewall.freeze
	Sync    time.Duration // firewall.sync_period
	Compare time.Duration // firewall.whitelist_poll_period

	GateAddress
}

// GateAddress is the floating IP.
type GateAddress struct {
	Address      firewall.Address // nil: there is none
	AddressText  string
	AddressLease firewall.Swap // nil: the kernel cannot gate it
}

// gate is the part of a Core that guards the door.
type gate struct {
	made  Gate
	Guard *firewall.Guard
	Lists *firewall.Lists
	Pull  *firewall.Pull
	// Follow lets in what Ironic itself inspects.
	Follow *firewall.Follow
	// Recorder hears how machines boot; nil without Gate.Wire.
	Recorder *recorder.Recorder

	mu  sync.Mutex
	bad time.Time // since when the rules are not programmed; zero: they are
}

func newGate(o Gate, store *raftstore.Store, log *slog.Logger) *gate {
	var recording *recorder.Recorder
	if o.Wire != nil {
		recording = recorder.New(o.Wire, store, store.ID(), log)
		recording.RelaysDropped = o.RelaysDropped
	}
	lists := firewall.NewLists(o.Chains, store, o.Policy, o.Compare, o.Foreign, log)
	return &gate{
		made: o,
		Guard: firewall.NewGuard(firewall.GuardOptions{
			Lease: o.Lease, Lists: lists, Log: store, Length: o.Length, Freeze: o.Freeze, Logger: log,
			Address: o.Address, AddressText: o.AddressText, AddressLease: o.AddressLease,
		}),
		Lists:  lists,
		Pull:   firewall.NewPull(o.Ports, store, o.Sync, log),
		Follow: firewall.NewFollow(o.Inspections, store, log), Recorder: recording,
	}
}

// duties are what the leader does for the gate. The guard comes last, so that it
// closes first. Without a gate there are none.
func (g *gate) duties() []leader.Duty {
	if g == nil {
		return nil
	}
	duties := []leader.Duty{duty{"port list", g.Pull.Run}, duty{"inspections of Ironic", g.Follow.Run}}
	if g.Recorder != nil {
		duties = append(duties, duty{"boot recorder", g.Recorder.Run})
	}
	return append(duties, duty{"gate", g.Guard.Run})
}

// duty makes one of work that knows nothing of package leader.
type duty struct {
	name string
	run  func(context.Context, firewall.Authority) error
}

// Name implements leader.Duty.
func (d duty) Name() string { return d.name }

// Run implements leader.Duty.
func (d duty) Run(ctx context.Context, a leader.Authority) error { return d.run(ctx, a) }

// unfit is a reason not to lead: under a leader that cannot open, no machine boots,
// and the cluster looks healthy. Without a gate there is none.
func (g *gate) unfit() error {
	if g == nil {
		return nil
	}
	state, _ := g.Lists.State()
	g.mu.Lock()
	defer g.mu.Unlock()
	if state.Err == nil {
		g.bad = time.Time{}
		return nil
	}
	if g.bad.IsZero() {
		g.bad = time.Now()
	}
	if time.Since(g.bad) < gateGrace {
		return nil
	}
	return fmt.Errorf("the PXE filter of this host cannot be programmed: %w", state.Err)
}

// stop shuts the door for good and lets the next leader know.
func (g *gate) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	g.Guard.Stop(ctx)
	g.commitHeard(ctx)
}

// door is the filter and the floating IP of this host as others see them.
func (c *Core) door(members *health.Members, conf func() config.Config) *health.Door {
	d := &health.Door{Members: members, Fitness: c.Fitness, Driver: host.Noop, Config: conf}
	if g := c.gate; g != nil {
		d.Guard, d.Lists, d.Pull, d.Driver, d.Address = g.Guard, g.Lists, g.Pull, g.made.Driver, g.made.AddressText
		d.Follow, d.Recorder = g.Follow, g.Recorder
	}
	return d
}

// yield shuts the door for the rest of this leadership and lets the next leader
// know.
func (g *gate) yield(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	g.Guard.Yield(ctx)
	g.commitHeard(ctx)
}

// commitHeard has the recorder commit what it has heard until the door shut.
func (g *gate) commitHeard(ctx context.Context) {
	if g.Recorder != nil {
		g.Recorder.Yield(ctx)
	}
}
