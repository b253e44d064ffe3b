//go:build e2e

package host

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/nftables"
	"github.com/trivet-ha/trivet/test/netns"
)

// TestFilesAreBelowALease wants the kernel to keep the door of driver dnsmasq: a
// process that dies leaves its files open.
func TestFilesAreBelowALease(t *testing.T) {
	host, other := netns.New(t), netns.New(t)
	host.Cable("pxe", other, "far")
	c := config.Config{Firewall: config.Firewall{Driver: Dnsmasq, Interface: "pxe", Match: "chaddr",
		DHCPHostsDir: filepath.Join(t.TempDir(), "hosts")}}
	ctx := t.Context()
	host.Do(func() error { return PurgeOffline(ctx, c) })
	var f Filter
	host.Do(func() error { f = New(c.Firewall, slog.New(slog.DiscardHandler)); return nil })
	for _, end := range f.close {
		defer func() {
			if err := end(); err != nil {
				t.Error(err)
			}
		}()
	}
	made := f.Lease.(*remadeFilter).inner()
	if _, ok := made.Lease.(*nftables.Lease); !ok {
		t.Fatalf("lease-in-the-kernel: the lease of driver dnsmasq is a %T", made.Lease)
	}
	if _, ok := made.Chains.(leased); !ok {
		t.Errorf("lease-in-the-kernel: lists of %T do not look after its table", made.Chains)
	}
	if f.Driver != Dnsmasq || f.Foreign == nil || f.Run == nil {
		t.Errorf("driver %q, watched: %v", f.Driver, f.Run != nil)
	}
	host.Do(func() error { return f.Lease.Shut(ctx) })
	host.Do(func() error {
		if err := f.Chains.Replace(ctx, firewall.Ruleset{Deny: []string{firewall.TestMAC}}); err != nil {
			return err
		}
		return CloseOffline(ctx, c)
	})
	host.Do(func() error {
		got, err := f.Chains.Read(ctx)
		if err == nil && !got.Equal(firewall.Ruleset{}) {
			t.Errorf("closed offline the files say %+v", got)
		}
		return err
	})
}

// TestAFilterOnAPortOfABridge makes a host's filter, as root, whose interface is a
// port of a bridge: the rules name the bridge, no machine is let in, and the reason
// names the bridge, too.
func TestAFilterOnAPortOfABridge(t *testing.T) {
	host, other := netns.New(t), netns.New(t)
	host.Cable("pxe", other, "far")
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
	host.Do(func() error { return netlink.LinkAdd(bridge) })
	host.Change("pxe", func(l netlink.Link) error { return netlink.LinkSetMaster(l, bridge) })

	c := config.Firewall{Driver: "auto", Interface: "pxe", Match: "ether"}
	var f Filter
	host.Do(func() error {
		f = New(c, slog.New(slog.DiscardHandler))
		return nil
	})
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	made := f.Lease.(*remadeFilter).inner()
	if made.place.Name != "br0" {
		t.Errorf("follows-its-interface: the filter is on %s", made.place.Name)
	}
	host.Do(func() error {
		err := f.Chains.Replace(t.Context(), firewall.Ruleset{Pass: true})
		if !errors.Is(err, firewall.ErrMisplaced) || !strings.Contains(err.Error(), "write firewall.interface: br0") {
			t.Errorf("follows-its-interface: %v", err)
		}
		if err := CloseOffline(t.Context(), config.Config{Firewall: c}); err != nil {
			return err // the rules that it leaves are those of this filter
		}
		if err := f.Lease.Arm(t.Context(), time.Second); !errors.Is(err, firewall.ErrMisplaced) {
			t.Errorf("follows-its-interface: armed: %v", err)
		}
		rules, err := made.Chains.(shut).chains.Read(t.Context())
		if err == nil && !rules.Equal(firewall.Ruleset{}) {
			t.Errorf("follows-its-interface: the bridge has %+v", rules)
		}
		return err
	})
	host.Change("pxe", netlink.LinkSetNoMaster)
	host.Do(func() error {
		if now, err := f.Lease.(*remadeFilter).look(made.place.Index); err != nil || now == made.place ||
			now.Problem("pxe") != nil {
			t.Errorf("follows-its-interface: back by itself: %+v, %v", now, err)
		}
		return nil
	})
}
