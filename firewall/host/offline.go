package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/dnsmasq"
	"github.com/trivet-ha/trivet/firewall/floatingip"
	"github.com/trivet-ha/trivet/firewall/iptables"
	"github.com/trivet-ha/trivet/firewall/netif"
	"github.com/trivet-ha/trivet/firewall/nftables"
)

// CloseOffline shuts the door of this host and empties its lists, and takes away what a
// peer left of the floating IP, from the configuration alone: before a DHCP server starts,
// and after the peer ended. To shut what is shut is a success. Driver Noop has no door.
func CloseOffline(ctx context.Context, c config.Config) error {
	closed := closeDoor(ctx, c) // the door first
	if c.FloatingIP.Address == "" {
		return closed
	}
	a, err := floatingip.New(c.FloatingIP)
	if err != nil {
		return errors.Join(closed, err)
	}
	// What gates the address would keep another program silent that carries it from now on.
	return errors.Join(closed, a.Withdraw(ctx), removeTables(ctx, a, nftables.NewAddress(a.IP())))
}

func closeDoor(ctx context.Context, c config.Config) error {
	if c.Firewall.Driver == Noop {
		return nil
	}
	at, err := netif.Kernel().Place(c.Firewall.Interface, 0)
	if err != nil {
		at.Name = c.Firewall.Interface // closed there at the least
	}
	return errors.Join(err, seal(ctx, c, firewall.Layout{Interface: at.Name, Match: firewall.Match(c.Firewall.Match)}))
}

// seal shuts the door of the driver that is configured, or that the peer takes.
func seal(ctx context.Context, c config.Config, layout firewall.Layout) error {
	switch c.Firewall.Driver {
	case "nftables":
		return sealNftables(ctx, layout)
	case "iptables":
		return sealIptables(ctx, layout)
	case Dnsmasq:
		return underShutLease(ctx, layout, func() error { return sealFiles(ctx, c.Firewall.DHCPHostsDir) })
	}
	// auto: what the peer takes, or its door would stay shut for good by rules
	// that it does not know.
	_, lacks := newTable(ctx, layout)
	if lacks == nil {
		return sealNftables(ctx, layout)
	}
	if !nftables.Lacks(lacks) { // rules of iptables would stay, next to a filter that does not know them
		return fmt.Errorf("firewall.driver: nftables: %w", lacks)
	}
	if err := sealIptables(ctx, layout); err != nil {
		return errors.Join(fmt.Errorf("firewall.driver: nftables: %w", lacks), err)
	}
	return nil
}

// PurgeOffline is CloseOffline for when no DHCP server runs on this host: driver
// dnsmasq begins with an empty directory, which is made if need be. To the other
// drivers it is the same.
func PurgeOffline(ctx context.Context, c config.Config) error {
	if c.Firewall.Driver == Dnsmasq {
		if err := dnsmasq.Prepare(ctx, c.Firewall.DHCPHostsDir); err != nil {
			return errors.Join(err, CloseOffline(ctx, c))
		}
	}
	return CloseOffline(ctx, c)
}

// sealFiles makes dnsmasq ignore every machine, whether it runs or not.
func sealFiles(ctx context.Context, path string) (err error) {
	files, err := dnsmasq.New(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	return files.Seal(ctx)
}

// sealNftables shuts the filter of driver nftables, or the lease alone that other
// drivers keep their lists below. It fails with what the kernel lacks of it.
func sealNftables(ctx context.Context, layout firewall.Layout, options ...nftables.Option) error {
	filter, err := nftables.New(layout, options...)
	if err != nil {
		return err
	}
	if err := filter.Seal(ctx); err != nil {
		if lacks := filter.Supported(ctx); lacks != nil { // knows what the kernel was built without
			return fmt.Errorf("%w; what is missing: %w", err, lacks)
		}
		return err
	}
	return nil
}

// underShutLease shuts the lease and the lists below it; each alone keeps everything
// out. The lease is first: it holds at once, and depends on no lock, file or command.
func underShutLease(ctx context.Context, layout firewall.Layout, lists func() error) error {
	lease := sealNftables(ctx, layout, nftables.LeaseOnly())
	return errors.Join(lease, lists())
}

// sealIptables shuts the lists of driver iptables below their lease.
func sealIptables(ctx context.Context, layout firewall.Layout) error {
	return underShutLease(ctx, layout, func() error {
		filter, err := iptables.New(ctx, layout)
		if err != nil {
			return err
		}
		return filter.Seal(ctx)
	})
}
