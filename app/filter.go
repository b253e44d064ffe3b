package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/dnsmasq"
	"github.com/trivet-ha/trivet/firewall/floatingip"
	"github.com/trivet-ha/trivet/firewall/iptables"
	"github.com/trivet-ha/trivet/firewall/netif"
	"github.com/trivet-ha/trivet/firewall/nftables"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

const (
	// probeLimit bounds the look at what this host's kernel can do.
	probeLimit = 10 * time.Second
	// conflictWait is how long another holder of the floating IP has to answer;
	// the guard, which asks, has a lease to renew meanwhile.
	conflictWait = 100 * time.Millisecond
	// contestWait is how long another host that claims the floating IP is
	// listened for at a time, while this one has it. The question goes out three
	// times meanwhile.
	contestWait = 9 * time.Second
)

// sysfs is where the kernel shows interfaces.
const sysfs = "/sys"

// dnsmasqDriver is the one whose lists are files for dnsmasq.
const dnsmasqDriver = "dnsmasq"

// Kernel is where a host's PXE filter keeps its lists and its lease.
type Kernel interface {
	firewall.Chains
	firewall.Lease
}

// filter is this host's PXE filter, as configured and as its kernel allows.
type filter struct {
	chains  firewall.Chains
	lease   firewall.Lease
	foreign <-chan struct{}
	driver  string
	run     func(ctx context.Context) // watches for others' doings; nil: nothing to run
	close   []func() error
	place   netif.Place // of the interface that it was made for
}

// newFilter takes the driver that is configured, or the one that the kernel
// has. A host without either gets a filter that fails at everything, until it
// can be made after all: its peer serves, says why, and opens nothing.
func newFilter(c config.Firewall, log *slog.Logger) filter {
	if c.Driver == noop {
		n := &firewall.Memory{}
		return filter{chains: n, lease: n, driver: noop}
	}
	kernel := netif.Kernel()
	known := 0 // the interface's index, as it was last seen
	again := func() (filter, error) {
		at, err := kernel.Place(c.Interface, known)
		if err != nil {
			return filter{}, err
		}
		known = at.Index
		return makeFilter(c, at, log)
	}
	f, err := again()
	if err != nil {
		log.Error("set up PXE filter failed, retrying; the PXE service stays closed on this host", "driver", c.Driver, "err", err, "retry_in", lateEvery)
		f = broken{err}.filter()
		f.driver = c.Driver
	}
	look := func(known int) (netif.Place, error) { return kernel.Place(c.Interface, known) }
	return newRemadeFilter(f, again, look, log)
}

// makeFilter makes the filter on the interface on which packets arrive, or says why
// this host cannot have it now. Where that is not the configured interface, the
// filter keeps everything out.
func makeFilter(c config.Firewall, at netif.Place, log *slog.Logger) (filter, error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
	defer cancel()
	f, err := driverFilter(ctx, c, firewall.Layout{Interface: at.Name, Match: firewall.Match(c.Match)}, log)
	if err != nil {
		return filter{}, err
	}
	f.place = at
	if why := at.Problem(c.Interface); why != nil {
		log.Error("PXE filter cannot see the packets of the configured interface; the PXE service stays closed on this host", "interface", c.Interface, "err", why)
	}
	return f.onlyWhere(at, c.Interface), nil
}

// onlyWhere makes a filter keep everything out unless its place is the configured
// interface.
func (f filter) onlyWhere(at netif.Place, configured string) filter {
	if why := at.Problem(configured); why != nil {
		m := misplaced{f.chains, f.lease, why}
		f.chains, f.lease = m, m
	}
	return f
}

// driverFilter makes the filter of the driver that is configured, or of the first
// that this host can have.
func driverFilter(ctx context.Context, c config.Firewall, layout firewall.Layout, log *slog.Logger) (f filter, err error) {
	switch c.Driver {
	case "nftables":
		return nftablesFilter(ctx, layout, log)
	case "iptables":
		return iptablesFilter(ctx, layout, log)
	case dnsmasqDriver:
		return dnsmasqFilter(ctx, c, layout, log)
	}
	f, lacks := nftablesFilter(ctx, layout, log) // auto
	if lacks != nil {
		f, err = iptablesFilter(ctx, layout, log)
		err = join(lacks, err)
	}
	return f, err
}

// join names both drivers' reasons, if the second failed, too.
func join(nft, ipt error) error {
	if ipt == nil {
		return nil
	}
	return errors.Join(fmt.Errorf("nftables: %w", nft), fmt.Errorf("iptables: %w", ipt))
}

func nftablesFilter(ctx context.Context, layout firewall.Layout, log *slog.Logger) (filter, error) {
	nft, err := nftables.New(layout)
	if err != nil {
		return filter{}, err
	}
	if err := nft.Supported(ctx); err != nil {
		return filter{}, err
	}
	watch, err := nft.Watch(log)
	if err != nil {
		return filter{}, err
	}
	forgetIptables(ctx, layout, log)
	chains, lease := nft.Chains(), nft.Lease()
	return filter{
		chains: chains, lease: lease, foreign: watch.Changed(), driver: "nftables", run: watch.Run,
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
func iptablesFilter(ctx context.Context, layout firewall.Layout, log *slog.Logger) (filter, error) {
	lists, err := iptables.New(ctx, layout)
	if err != nil {
		return filter{}, err
	}
	for _, note := range lists.Notes() {
		log.Info("PXE filter ready", "driver", "iptables", "note", note)
	}
	return underLease(ctx, filter{driver: "iptables", chains: lists}, lists.Watch(), layout, log)
}

// dnsmasqFilter keeps the lists in files for dnsmasq. They hold nothing back by
// themselves when this process dies.
func dnsmasqFilter(ctx context.Context, c config.Firewall, layout firewall.Layout, log *slog.Logger) (filter, error) {
	lists, err := dnsmasq.New(c.DHCPHostsDir)
	if err != nil {
		return filter{}, err
	}
	gaze, err := lists.Watch(log)
	if err != nil {
		return filter{}, errors.Join(err, lists.Close())
	}
	f, err := underLease(ctx, filter{driver: dnsmasqDriver, chains: lists}, gaze, layout, log)
	if err != nil {
		return filter{}, errors.Join(err, gaze.Close(), lists.Close())
	}
	f.close = append(f.close, lists.Close)
	return f, nil
}

// underLease puts lists that another driver keeps, and that gaze watches, below
// the lease in nf_tables. A drop in either wins. A kernel without nf_tables has
// nothing that ends a lease conditionally, and is refused.
func underLease(ctx context.Context, f filter, gaze watcher, layout firewall.Layout, log *slog.Logger) (filter, error) {
	nft, err := nftables.New(layout, nftables.LeaseOnly())
	if err != nil {
		return filter{}, err
	}
	if err := nft.Supported(ctx); err != nil {
		return filter{}, fmt.Errorf("keep the lease of the PXE pass rule, which needs nf_tables with every firewall.driver: %w", err)
	}
	// Who flushes nf_tables flushes what iptables keeps there, too.
	watch, err := nft.Watch(log)
	if err != nil {
		return filter{}, err
	}
	if f.driver != "iptables" {
		forgetIptables(ctx, layout, log)
	}
	lease := nft.Lease()
	both := watches{[]watcher{watch, gaze}, make(chan struct{}, 1)}
	f.chains, f.lease, f.foreign, f.run = leased{f.chains, nft}, lease, both.news, both.Run
	f.close = append(f.close, lease.Close)
	return f, nil
}

// leased are another driver's lists on a host whose lease is in nf_tables: a
// table more to read back and to build. Lists let through what they are told
// to, so the lease comes first.
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

// watcher tells when somebody may have touched our rules.
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
			tell(to)
		case <-ctx.Done():
			return
		}
	}
}

// tell puts news into a channel that holds one: more before it is received are
// the same.
func tell(news chan<- struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

// broken is the filter of a host that can have none.
type broken struct{ err error }

func (b broken) filter() filter { return filter{chains: b, lease: b} }

func (b broken) Replace(context.Context, firewall.Ruleset) error { return b.err }
func (b broken) Change(context.Context, firewall.Change) error   { return b.err }
func (b broken) Read(context.Context) (firewall.Ruleset, error)  { return firewall.Ruleset{}, b.err }
func (b broken) Arm(context.Context, time.Duration) error        { return b.err }
func (b broken) Open(context.Context, time.Duration) error       { return b.err }
func (b broken) Hold(context.Context, time.Duration) error       { return b.err }
func (b broken) Shut(context.Context) error                      { return b.err }

// floating is the floating IP as the guard sees it.
type floating struct{ *floatingip.Address }

// Conflict implements firewall.Address.
func (f floating) Conflict(ctx context.Context) (mac string, err error) {
	return f.Address.Conflict(ctx, conflictWait)
}

// Contested implements firewall.Address.
func (f floating) Contested(ctx context.Context) (mac string, err error) {
	return f.Address.Conflict(ctx, contestWait)
}

// portLister lists Ironic's ports for the blacklist. A port whose address is no
// MAC (InfiniBand's are longer) is nobody's on this network.
type portLister struct {
	ironic *ironic.Client
	guids  bool // which ports are InfiniBand's, is asked, too
}

// AllPorts implements firewall.PortLister.
func (l portLister) AllPorts(ctx context.Context) ([]fsm.Port, error) {
	var more []string
	if l.guids {
		more = []string{"extra"}
	}
	listed, err := l.ironic.AllPorts(ctx, more...)
	if err != nil {
		return nil, err
	}
	ports := make([]fsm.Port, 0, len(listed))
	for _, p := range listed {
		if mac, ok := inspector.CanonicalMAC(p.Address); ok {
			ports = append(ports, fsm.Port{ID: p.UUID, MAC: mac, Node: p.Node, GUID: guidOf(p)})
		}
	}
	return ports, nil
}

// guidOf returns the GUID of an InfiniBand port: the last eight bytes of the DHCP
// client identifier that Ironic has of it. Other identifiers are none.
func guidOf(p inspector.Port) string {
	id, _ := p.Extra["client-id"].(string)
	if len(id) < fsm.GUIDLength {
		return ""
	}
	guid := strings.ToLower(id[len(id)-fsm.GUIDLength:])
	if at, err := net.ParseMAC(guid); err != nil || len(at) != 8 || at.String() != guid {
		return ""
	}
	return guid
}

// startFilter makes what the gate needs of the kernel. Its end lets go of the
// kernel's sockets; the rules stay, shut.
func (p *Peer) startFilter(context.Context) error {
	if k := p.opts.Kernel; k != nil {
		p.filter = filter{chains: k, lease: k, driver: model}
		return nil
	}
	made := newFilter(p.opts.Config.Firewall, p.opts.Logger)
	p.opened.add("PXE filter", func(context.Context) error { return closeAll(made.close) })
	p.filter = made
	return nil
}

func (p *Peer) startAddress(context.Context) error {
	conf := p.opts.Config
	if conf.FloatingIP.Address == "" {
		return nil
	}
	address, err := floatingip.New(conf.FloatingIP)
	if err != nil {
		return err
	}
	p.address = address
	return nil
}

// gateOptions are the parts of this peer's gate; nil if there is neither a
// filter nor an address.
func (p *Peer) gateOptions() *Gate {
	conf := p.opts.Config
	if p.filter.driver == noop && p.address == nil {
		return nil
	}
	g := &Gate{
		Chains: p.filter.chains, Lease: p.filter.lease, Foreign: p.filter.foreign, Ports: portLister{p.ironic, len(conf.Firewall.EthoIBInterfaces) > 0}, Policy: firewall.PolicyOf(conf),
		Driver: p.filter.driver, Interface: conf.Firewall.Interface,
		Length: conf.Firewall.Lease, Sync: conf.Firewall.SyncPeriod, Compare: conf.Firewall.WhitelistPollPeriod,
		Inspections: p.inspections(),
	}
	if names := conf.Firewall.EthoIBInterfaces; len(names) > 0 {
		g.Neighbours = firewall.NewEthoIB(sysfs, names, p.opts.Logger)
	}
	if p.address != nil {
		g.Address, g.AddressText = floating{p.address}, conf.FloatingIP.Address
		if ip, err := netip.ParseAddr(conf.FloatingIP.Address); err == nil && ip.Is6() {
			g.AddressSlack = firewall.LateIPv6
		}
	}
	return g
}

func closeAll(ends []func() error) error {
	var errs []error
	for _, end := range ends {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}
