package app

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/iptables"
	"github.com/trivet-ha/trivet/firewall/nftables"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/internal/netns"
)

// TestFilesAreBelowALease wants the kernel to keep the door of driver dnsmasq: a
// process that dies leaves its files open.
func TestFilesAreBelowALease(t *testing.T) {
	host := netns.New(t)
	c := config.Config{Firewall: config.Firewall{Driver: dnsmasqDriver, Interface: "lo", Match: "chaddr", DHCPHostsDir: filepath.Join(t.TempDir(), "hosts")}}
	ctx := t.Context()
	host.Do(func() error { return PurgeOffline(ctx, c) })
	var f filter
	host.Do(func() error { f = newFilter(c.Firewall, slog.New(slog.DiscardHandler)); return nil })
	for _, end := range f.close {
		defer func() {
			if err := end(); err != nil {
				t.Error(err)
			}
		}()
	}
	made := f.lease.(*remadeFilter).inner()
	switch made.lease.(type) {
	case *nftables.Lease:
		if _, ok := made.chains.(leased); !ok {
			t.Errorf("lease-in-the-kernel: lists of %T do not look after its table", made.chains)
		}
	case *iptables.RecentLease:
	default:
		t.Fatalf("lease-in-the-kernel: the lease of driver dnsmasq is a %T", made.lease)
	}
	if f.driver != dnsmasqDriver || f.foreign == nil || f.run == nil {
		t.Errorf("driver %q, watched: %v", f.driver, f.run != nil)
	}
	host.Do(func() error { return f.lease.Shut(ctx) })
	host.Do(func() error {
		if err := f.chains.Replace(ctx, firewall.Ruleset{Deny: []string{firewall.TestMAC}}); err != nil {
			return err
		}
		return CloseOffline(ctx, c)
	})
	host.Do(func() error {
		got, err := f.chains.Read(ctx)
		if err == nil && !got.Equal(firewall.Ruleset{}) {
			t.Errorf("closed offline the files say %+v", got)
		}
		return err
	})
}

func TestGUIDOf(t *testing.T) {
	const guid = "7c:fe:90:03:00:29:26:52"
	for _, tt := range []struct {
		id   any
		want string
	}{
		{"ff:00:00:00:00:00:02:00:00:02:c9:00:" + guid, guid}, {"FF:00:7C:FE:90:03:00:29:26:52", guid}, {guid, guid},
		{"", ""}, {"a machine's name, which is no GUID", ""}, {nil, ""}, {7, ""}, {guid[1:], ""},
	} {
		if got := guidOf(inspector.Port{Extra: map[string]any{"client-id": tt.id}}); got != tt.want {
			t.Errorf("client-id %v: GUID %q, want %q", tt.id, got, tt.want)
		}
	}
}
