// Package host is the PXE filter of this host: of the driver that is configured or
// that its kernel has, on the interface on which packets arrive.
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
	"github.com/trivet-ha/trivet/firewall/dnsmasq"
	"github.com/trivet-ha/trivet/firewall/iptables"
	"github.com/trivet-ha/trivet/firewall/netif"
	"github.com/trivet-ha/trivet/firewall/nftables"
)

const (
	// probeLimit bounds the look at what this host's kernel can do.
	probeLimit = 10 * time.Second
)

// Drivers of firewall.driver that others ask for: Noop filters nothing, and the lists
// of Dnsmasq are files for dnsmasq.
const (
	Noop    = "noop"
	Dnsmasq = "dnsmasq"
)

// Filter is this host's PXE filter, as configured and as its kernel allows.
type Filter struct {
	Chains  firewall.Chains
	Lease   firewall.Lease
	Foreign <-chan struct{}           // another program may have changed the rules; nil: not known
	Driver  string                    // that is in use, for display
	Run     func(ctx context.Context) // watches for changes by other programs; nil: nothing to run
	close   []func() error
	place   netif.Place // of the interface that it was made for
}

// Close lets go of the kernel's sockets; the rules stay.
func (f Filter) Close() error {
	var errs []error
	for _, end := range f.close {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// New takes the driver that is configured, or the one that the kernel
// has. A host without either gets a filter that fails at everything, until it
// can be made after all: its peer serves, says why, and opens nothing.
func New(c config.Firewall, log *slog.Logger) Filter {
	if c.Driver == Noop {
		n := new(noop)
		return Filter{Chains: n, Lease: n, Driver: Noop}
	}
	kernel := netif.Kernel()
	known := 0 // the interface's index, as it was last seen
	again := func() (Filter, error) {
		at, err := kernel.Place(c.Interface, known)
		if err != nil {
			return Filter{}, err
		}
		known = at.Index
		return makeFilter(c, at, log)
	}
	f, err := again()
	if err != nil {
		log.Error("set up PXE filter failed, retrying; the PXE service stays closed on this host", "driver", c.Driver, "err",
			err, "retry_in", lateEvery)
		f = broken{err}.filter()
		f.Driver = c.Driver
	}
	look := func(known int) (netif.Place, error) { return kernel.Place(c.Interface, known) }
	return newRemadeFilter(f, again, look, log)
}

// makeFilter makes the filter on the interface on which packets arrive, or says why
// this host cannot have it now. Where that is not the configured interface, the
// filter keeps everything out.
func makeFilter(c config.Firewall, at netif.Place, log *slog.Logger) (Filter, error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
	defer cancel()
	f, err := driverFilter(ctx, c, firewall.Layout{Interface: at.Name, Match: firewall.Match(c.Match)}, log)
	if err != nil {
		return Filter{}, err
	}
	f.place = at
	if why := at.Problem(c.Interface); why != nil {
		log.Error("PXE filter cannot see the packets of the configured interface; the PXE service stays closed on this host",
			"interface", c.Interface, "err", why)
	}
	return f.onlyWhere(at, c.Interface), nil
}

// onlyWhere makes a filter keep everything out unless its place is the configured
// interface.
func (f Filter) onlyWhere(at netif.Place, configured string) Filter {
	if why := at.Problem(configured); why != nil {
		m := misplaced{f.Chains, f.Lease, why}
		f.Chains, f.Lease = m, m
	}
	return f
}

// driverFilter makes the filter of the driver that is configured, or of the first
// that this host can have.
func driverFilter(ctx context.Context, c config.Firewall, layout firewall.Layout, log *slog.Logger) (f Filter,
	err error) {
	switch c.Driver {
	case "nftables":
		return nftablesFilter(ctx, layout, log)
	case "iptables":
		return iptablesFilter(ctx, layout, log)
	case Dnsmasq:
		return dnsmasqFilter(ctx, c, layout, log)
	}
	f, lacks := nftablesFilter(ctx, layout, log) // auto
	if lacks == nil || !nftables.Lacks(lacks) {  // else the next try would be of another driver
		return f, lacks
	}
	f, err = iptablesFilter(ctx, layout, log)
	return f, join(lacks, err)
}

// join names both drivers' reasons, if the second failed, too.
func join(nft, ipt error) error {
	if ipt == nil {
		return nil
	}
	return errors.Join(fmt.Errorf("nftables: %w", nft), fmt.Errorf("iptables: %w", ipt))
}

func nftablesFilter(ctx context.Context, layout firewall.Layout, log *slog.Logger) (Filter, error) {
	nft, err := nftables.New(layout)
	if err != nil {
		return Filter{}, err
	}
	if err := nft.Supported(ctx); err != nil {
		return Filter{}, err
	}
	watch, err := nft.Watch(log)
	if err != nil {
		return Filter{}, err
	}
	forgetIptables(ctx, layout, log)
	chains, lease := nft.Chains(), nft.Lease()
	return Filter{
		Chains: chains, Lease: lease, Foreign: watch.Changed(), Driver: "nftables", Run: watch.Run,
		close: []func() error{chains.Close, lease.Close},
	}, nil
}

// forgetIptables removes what this host has of driver iptables, from before its
// configuration was changed: a drop in either wins, so that the door would stay
// shut for ever. The other way round nothing is left: the lease of driver
// iptables takes the place of the nftables filter, in the same table.
func forgetIptables(ctx context.Context, layout firewall.Layout, log *slog.Logger) {
	layout.Match = firewall.MatchEther
	old, err := iptables.New(ctx, layout)
	if err != nil {
		return // no iptables here, so no rules of it
	}
	if err := old.Remove(ctx); err != nil {
		log.Warn("remove rules of driver iptables failed; they may keep the PXE service closed", "err", err)
	}
}

// iptablesFilter keeps the lists in iptables.
func iptablesFilter(ctx context.Context, layout firewall.Layout, log *slog.Logger) (Filter, error) {
	lists, err := iptables.New(ctx, layout)
	if err != nil {
		return Filter{}, err
	}
	for _, note := range lists.Notes() {
		log.Info("PXE filter ready", "driver", "iptables", "note", note)
	}
	return underLease(ctx, Filter{Driver: "iptables", Chains: lists}, lists.Watch(), layout, log)
}

// dnsmasqFilter keeps the lists in files for dnsmasq. They hold nothing back by
// themselves when this process dies.
func dnsmasqFilter(ctx context.Context, c config.Firewall, layout firewall.Layout, log *slog.Logger) (Filter, error) {
	lists, err := dnsmasq.New(c.DHCPHostsDir)
	if err != nil {
		return Filter{}, err
	}
	gaze, err := lists.Watch(log)
	if err != nil {
		return Filter{}, errors.Join(err, lists.Close())
	}
	f, err := underLease(ctx, Filter{Driver: Dnsmasq, Chains: lists}, gaze, layout, log)
	if err != nil {
		return Filter{}, errors.Join(err, gaze.Close(), lists.Close())
	}
	f.close = append(f.close, lists.Close)
	return f, nil
}

// underLease puts lists that another driver keeps, and that gaze watches, below
// the lease in nf_tables. A drop in either wins. A kernel without nf_tables has
// nothing that ends a lease conditionally, and is refused.
func underLease(ctx context.Context, f Filter, gaze watcher, layout firewall.Layout, log *slog.Logger) (Filter, error) {
	nft, err := nftables.New(layout, nftables.LeaseOnly())
	if err != nil {
		return Filter{}, err
	}
	if err := nft.Supported(ctx); err != nil {
		return Filter{}, fmt.Errorf(
			"keep the lease of the PXE pass rule, which needs nf_tables with every firewall.driver: %w", err)
	}
	// Who flushes nf_tables flushes what iptables keeps there, too.
	watch, err := nft.Watch(log)
	if err != nil {
		return Filter{}, err
	}
	if f.Driver != "iptables" {
		forgetIptables(ctx, layout, log)
	}
	lease := nft.Lease()
	both := watches{[]watcher{watch, gaze}, make(chan struct{}, 1)}
	f.Chains, f.Lease, f.Foreign, f.Run = leased{f.Chains, nft}, lease, both.news, both.Run
	f.close = append(f.close, lease.Close)
	return f, nil
}

// leased are another driver's lists on a host whose lease is in nf_tables: one
// more table to read back and to build. The lists let through what they name, so
// the lease comes first.
type leased struct {
	firewall.Chains
	table leaseTable
}

// leaseTable is where a lease is kept.
type leaseTable interface {
	// Mend builds it, shut, unless it is there.
	Mend(ctx context.Context) error
	// Left fails with firewall.ErrForeign when it is not ours.
	Left(ctx context.Context) (time.Duration, error)
}

// Replace implements firewall.Chains.
func (l leased) Replace(ctx context.Context, r firewall.Ruleset) error {
	if err := l.table.Mend(ctx); err != nil {
		return fmt.Errorf("build the table of the lease: %w", err)
	}
	return l.Chains.Replace(ctx, r)
}

// Read implements firewall.Chains.
func (l leased) Read(ctx context.Context) (firewall.Ruleset, error) {
	r, err := l.Chains.Read(ctx)
	if err != nil {
		return r, err
	}
	_, err = l.table.Left(ctx)
	return r, err
}

// watcher notifies when another program may have changed our rules.
type watcher interface {
	Changed() <-chan struct{}
	Run(ctx context.Context)
}

// watches makes one of two: what either tells is news.
type watches struct {
	all  []watcher
	news chan struct{} // holds one: more before it is received are the same; never closed
}

// Run runs all until ctx ends.
func (w watches) Run(ctx context.Context) {
	var work sync.WaitGroup
	for _, one := range w.all {
		work.Go(func() { one.Run(ctx) })
		work.Go(func() { pass(ctx, one.Changed(), w.news) })
	}
	work.Wait()
}

// pass hands on news until ctx ends; to holds one.
func pass(ctx context.Context, from <-chan struct{}, to chan<- struct{}) {
	for {
		select {
		case <-from:
			firewall.Tell(to)
		case <-ctx.Done():
			return
		}
	}
}

// broken is the filter of a host that can have none.
type broken struct{ err error }

func (b broken) filter() Filter { return Filter{Chains: b, Lease: b} }

func (b broken) Replace(context.Context, firewall.Ruleset) error { return b.err }
func (b broken) Change(context.Context, firewall.Change) error   { return b.err }
func (b broken) Read(context.Context) (firewall.Ruleset, error)  { return firewall.Ruleset{}, b.err }
func (b broken) Arm(context.Context, time.Duration) error        { return b.err }
func (b broken) Open(context.Context, time.Duration) error       { return b.err }
func (b broken) Hold(context.Context, time.Duration) error       { return b.err }
func (b broken) Shut(context.Context) error                      { return b.err }
