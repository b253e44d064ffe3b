package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/host"
	"github.com/trivet-ha/trivet/firewall/netif"
	"github.com/trivet-ha/trivet/firewall/recorder"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

const (
	// conflictWait is how long another holder of the floating IP has to answer;
	// the guard, which asks, has a lease to renew meanwhile.
	conflictWait = 100 * time.Millisecond
	// contestWait is how long another host that claims the floating IP is
	// listened for at a time, while this one has it. The question goes out three
	// times meanwhile.
	contestWait = 9 * time.Second
)

// pxeParts are the parts of a Peer that decide about its host's PXE service.
type pxeParts struct {
	filter  host.Filter
	address *host.Address      // nil: there is none
	carries *health.FloatingIP // nil likewise
	// services are those that clients call at the address; nil likewise.
	services *health.FloatingServices
}

// openFilter makes what the gate needs of the kernel. Its end lets go of the
// kernel's sockets; the rules stay, shut.
func (p *pxeParts) openFilter(o Options, opened *closers) {
	if o.Filter != nil {
		p.filter = *o.Filter
		return
	}
	made := host.New(o.Config.Firewall, o.Logger)
	opened.add("PXE filter", func(context.Context) error { return made.Close() })
	p.filter = made
}

// floating is the floating IP as the guard sees it.
type floating struct{ *host.Address }

// Conflict implements firewall.Address.
func (f floating) Conflict(ctx context.Context) (mac string, err error) {
	return f.Address.Conflict(ctx, conflictWait)
}

// Contested implements firewall.Address.
func (f floating) Contested(ctx context.Context) (mac string, err error) {
	return f.Address.Conflict(ctx, contestWait)
}

// openAddress makes what carries the floating IP.
func (p *pxeParts) openAddress(conf config.FloatingIP, opened *closers, log *slog.Logger) error {
	if conf.Address == "" {
		return nil
	}
	address, err := host.NewAddress(conf, log)
	if err != nil {
		return err
	}
	opened.add("floating IP", address.Close)
	p.address, p.carries = address, new(health.FloatingIP)
	return nil
}

// gate are the parts of this peer's gate; nil if there is neither a filter nor an
// address.
func (p *pxeParts) gate(conf config.Config, ironic *ironic.Client, log *slog.Logger) *Gate {
	if p.filter.Driver == host.Noop && p.address == nil {
		return nil
	}
	g := &Gate{
		Chains: p.filter.Chains, Lease: p.filter.Lease, Foreign: p.filter.Foreign,
		Ports:  &portLister{ironic: ironic, log: log},
		Policy: firewall.PolicyOf(conf),
		Driver: p.filter.Driver, Interface: conf.Firewall.Interface,
		Length: conf.Firewall.Lease, Freeze: conf.Firewall.Freeze, Sync: conf.Firewall.SyncPeriod,
		Compare: conf.Firewall.WhitelistPollPeriod,
	}
	if of := conf.Firewall.InspectInterfaces; len(of) > 0 {
		g.Inspections = &inspections{ironic: ironic, interfaces: of, log: log}
	}
	if conf.Firewall.Recorder && p.filter.Driver != host.Noop {
		g.Wire = recorder.Interface{Name: conf.Firewall.Interface, Place: func(name string, known int) (int, error) {
			at, err := netif.Kernel().Place(name, known) // on which packets of the interface arrive
			return at.Index, err
		}}
		if firewall.Match(conf.Firewall.Match).Relays() != firewall.RelaysMatched {
			g.RelaysDropped = "what a DHCP relay passes on is dropped (firewall.match: ether)"
		}
	}
	if p.address != nil {
		g.Address, g.AddressText = floating{p.address}, conf.FloatingIP.Address
		g.AddressLease = p.address.Lease()
	}
	return g
}
