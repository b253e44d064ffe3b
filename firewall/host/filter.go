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
	why     error       // why it opens nothing until it is made again; nil for a filter that is whole
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
	again := func(meanwhile func(*nftables.Filter)) (Filter, error) {
		at, err := kernel.Place(c.Interface, known)
		if err != nil {
			return Filter{}, err
		}
		known = at.Index
		return makeFilter(c, at, log, meanwhile)
	}
	f, err := again(func(*nftables.Filter) {})
	if err != nil {
		log.Error("set up PXE filter failed, retrying; the PXE service stays closed on this host", "driver", c.Driver, "err",
			err, "retry_in", lateEvery)
		f = f.orBroken(err)
		f.Driver = c.Driver
	}
	look := func(known int) (netif.Place, error) { return kernel.Place(c.Interface, known) }
	return newRemadeFilter(f, again, look, log)
}

// makeFilter makes the filter on the interface on which packets arrive, or says why
// this host cannot have it now. Where that is not the configured interface, the
// filter keeps everything out. Meanwhile receives the table that does so until then.
func makeFilter(c config.Firewall, at netif.Place, log *slog.Logger, meanwhile func(*nftables.Filter)) (Filter, error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
	defer cancel()
	m := making{c, firewall.Layout{Interface: at.Name, Match: firewall.Match(c.Match)}, log, meanwhile}
	f, err := m.driverFilter(ctx)
	if err != nil {
		return f, err
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
		m := shut{broken{why}, f.Chains, f.Lease}
		f.Chains, f.Lease = m, m
	}
	return f
}

// making is what a filter is made from.
type making struct {
	c         config.Firewall
	layout    firewall.Layout
	log       *slog.Logger
	meanwhile func(*nftables.Filter) // receives the table that keeps everything out by itself
}

// driverFilter makes the filter of the driver that is configured, or of the first
// that this host can have. If that fails it may return what keeps everything out.
func (m making) driverFilter(ctx context.Context) (Filter, error) {
	switch m.c.Driver {
	case "iptables":
		return m.underLease(ctx, "iptables", m.iptablesLists)
	case Dnsmasq:
		return m.underLease(ctx, Dnsmasq, m.dnsmasqLists)
	}
	nft, lacks := newTable(ctx, m.layout)
	if lacks == nil {
		return m.tableFirst(ctx, nft, m.nftablesFilter)
	}
	if m.c.Driver == "nftables" || !nftables.Lacks(lacks) { // else the next try would be of another driver
		return Filter{}, lacks
	}
	f, err := m.underLease(ctx, "iptables", m.iptablesLists) // auto
	if err != nil {
		err = errors.Join(fmt.Errorf("nftables: %w", lacks), fmt.Errorf("iptables: %w", err))
	}
	return f, err
}

// newTable returns a table that this kernel can have.
func newTable(ctx context.Context, l firewall.Layout, options ...nftables.Option) (*nftables.Filter, error) {
	nft, err := nftables.New(l, options...)
	if err != nil {
		return nil, err
	}
	return nft, nft.Supported(ctx)
}

// tableFirst builds the table, shut, unless it is there: it holds at once, and depends on
// no lock, file or command. Then it makes the rest, which may take long or fail.
func (m making) tableFirst(ctx context.Context, nft *nftables.Filter,
	rest func(context.Context, *nftables.Filter) (Filter, error)) (f Filter, err error) {
	m.meanwhile(nft)
	if err = nft.Mend(ctx); err == nil {
		f, err = rest(ctx, nft)
	}
	if err != nil {
		return keptShut(nft, err), err
	}
	return f, nil
}

func (m making) nftablesFilter(ctx context.Context, nft *nftables.Filter) (Filter, error) {
	if err := m.forgetOthers(ctx, "nftables"); err != nil {
		return Filter{}, err
	}
	watch, err := nft.Watch(m.log)
	if err != nil {
		return Filter{}, err
	}
	chains, lease := nft.Chains(), nft.Lease()
	return Filter{
		Chains: chains, Lease: lease, Foreign: watch.Changed(), Driver: "nftables", Run: watch.Run,
		close: []func() error{chains.Close, lease.Close},
	}, nil
}

// forgetOthers takes out of force what this host has of other drivers, from before its
// configuration was changed. A drop in either wins, so no machine would pass while the
// door says that it is open: as long as that fails there is no filter that opens. The
// table of nftables is replaced by that of the lease, and the other way round.
func (m making) forgetOthers(ctx context.Context, driver string) error {
	var errs []error
	if driver != "iptables" {
		if err := iptables.Remove(ctx); err != nil {
			errs = append(errs, fmt.Errorf("remove the rules of driver iptables, which let no machine pass: %w", err))
		}
	}
	if driver != Dnsmasq {
		if err := dnsmasq.Release(ctx, m.c.DHCPHostsDir); err != nil {
			errs = append(errs, fmt.Errorf(
				"let dnsmasq answer again after driver dnsmasq: %w; or remove %s and restart dnsmasq without dhcp-hostsdir", err,
				m.c.DHCPHostsDir))
		}
	}
	return errors.Join(errs...)
}

// iptablesLists keeps the lists in iptables.
func (m making) iptablesLists(ctx context.Context) (Filter, watcher, error) {
	lists, err := iptables.New(ctx, m.layout)
	if err != nil {
		return Filter{}, nil, err
	}
	for _, note := range lists.Notes() {
		m.log.Info("PXE filter ready", "driver", "iptables", "note", note)
	}
	return Filter{Driver: "iptables", Chains: lists}, lists.Watch(), nil
}

// dnsmasqLists keeps the lists in files for dnsmasq. They hold nothing back by
// themselves when this process dies.
func (m making) dnsmasqLists(context.Context) (Filter, watcher, error) {
	lists, err := dnsmasq.New(m.c.DHCPHostsDir)
	if err != nil {
		return Filter{}, nil, err
	}
	gaze, err := lists.Watch(m.log)
	if err != nil {
		return Filter{}, nil, errors.Join(err, lists.Close())
	}
	return Filter{Driver: Dnsmasq, Chains: lists, close: []func() error{lists.Close}}, gaze, nil
}

// underLease puts lists that another driver keeps, and that a watcher watches, below
// the lease in nf_tables. A drop in either wins. A kernel without nf_tables has
// nothing that ends a lease conditionally, and is refused.
func (m making) underLease(ctx context.Context, driver string,
	lists func(context.Context) (Filter, watcher, error)) (Filter, error) {
	nft, err := newTable(ctx, m.layout, nftables.LeaseOnly())
	if nft == nil {
		return Filter{}, err
	}
	if err != nil {
		return Filter{}, fmt.Errorf(
			"keep the lease of the PXE pass rule, which needs nf_tables with every firewall.driver: %w", err)
	}
	return m.tableFirst(ctx, nft, func(ctx context.Context, nft *nftables.Filter) (Filter, error) {
		if err := m.forgetOthers(ctx, driver); err != nil {
			return Filter{}, err
		}
		// Who flushes nf_tables flushes what iptables keeps there, too.
		watch, err := nft.Watch(m.log)
		if err != nil {
			return Filter{}, err
		}
		f, gaze, err := lists(ctx)
		if err != nil {
			return Filter{}, errors.Join(err, watch.Close())
		}
		lease := nft.Lease()
		both := watches{[]watcher{watch, gaze}, make(chan struct{}, 1)}
		f.Chains, f.Lease, f.Foreign, f.Run = leased{f.Chains, nft}, lease, both.news, both.Run
		f.close = append(f.close, lease.Close)
		return f, nil
	})
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

// broken is the filter of a host that can have none: it fails at everything.
type broken struct{ err error }

func (b broken) filter() Filter { return Filter{Chains: b, Lease: b, why: b.err} }

// orBroken is f, or a broken filter where there is none.
func (f Filter) orBroken(why error) Filter {
	if f.Chains == nil {
		return broken{why}.filter()
	}
	return f
}

func (b broken) Replace(context.Context, firewall.Ruleset) error { return b.err }
func (b broken) Change(context.Context, firewall.Change) error   { return b.err }
func (b broken) Read(context.Context) (firewall.Ruleset, error)  { return firewall.Ruleset{}, b.err }
func (b broken) Arm(context.Context, time.Duration) error        { return b.err }
func (b broken) Open(context.Context, time.Duration) error       { return b.err }
func (b broken) Hold(context.Context, time.Duration) error       { return b.err }
func (b broken) Shut(context.Context) error                      { return b.err }
