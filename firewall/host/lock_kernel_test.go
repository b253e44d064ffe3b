//go:build e2e

package host

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/nftables"
	"github.com/trivet-ha/trivet/test/msgcheck"
	"github.com/trivet-ha/trivet/test/netns"
	"github.com/trivet-ha/trivet/test/testenv"
)

// lockedHost is a host with the legacy iptables, whose lock the test can hold as docker,
// kube-proxy or ufw do.
type lockedHost struct {
	*netns.Host
	t    *testing.T
	lock string
}

func newLockedHost(t *testing.T) lockedHost {
	testenv.NeedRoot(t, "nft", "iptables-legacy", "ip6tables-legacy")
	dir := t.TempDir()
	h := lockedHost{netns.New(t), t, filepath.Join(dir, "xtables.lock")}
	t.Setenv("XTABLES_LOCKFILE", h.lock)
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, end := range []string{"", "-save", "-restore"} {
			path, err := exec.LookPath(family + "-legacy" + end)
			if err == nil {
				err = os.Symlink(path, filepath.Join(dir, family+end))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		// A distribution with one back end.
		if err := os.WriteFile(filepath.Join(dir, family+"-nft"), []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":/usr/sbin:/sbin:"+os.Getenv("PATH"))
	h.Cable("pxe", netns.New(t), "far")
	return h
}

// hold takes the lock until release.
func (h lockedHost) hold() (release func()) {
	held, err := os.OpenFile(h.lock, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = unix.Flock(int(held.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return func() { _ = held.Close() } // twice is no failure of the test
}

// said is what a command of the host prints.
func (h lockedHost) said(command string, args ...string) (text string) {
	h.Do(func() error {
		out, err := exec.Command(command, args...).CombinedOutput()
		text = string(out)
		return err
	})
	return text
}

// filter makes the host's filter.
func (h lockedHost) filter(c config.Firewall) (f Filter) {
	c.Interface, c.Match = "pxe", "ether"
	h.Do(func() error { f = New(c, msgcheck.Logger(h.t)); return nil })
	h.t.Cleanup(func() {
		if err := f.Close(); err != nil {
			h.t.Error(err)
		}
	})
	return f
}

// opens programs rules that let machines pass, and opens the door.
func (h lockedHost) opens(f Filter) error {
	return h.Try(func() error {
		if err := f.Chains.Replace(h.t.Context(), firewall.Ruleset{Pass: true}); err != nil {
			return err
		}
		if err := f.Lease.Arm(h.t.Context(), time.Second); err != nil {
			return err
		}
		return f.Lease.Open(h.t.Context(), time.Second)
	})
}

// remade makes the filter again, as often as its loop would within the test.
func (h lockedHost) remade(f Filter) bool {
	made := false
	h.Do(func() error { made = f.Lease.(*remadeFilter).remake(); return nil })
	return made
}

// A host that is closed offline is closed by its lease also where the lists cannot be
// written: another program holds the lock of iptables, or the directory is missing.
func TestLeaseClosesOfflineWithoutLists(t *testing.T) {
	for _, driver := range []string{"iptables", Dnsmasq} {
		t.Run(driver, func(t *testing.T) {
			h := newLockedHost(t)
			defer h.hold()()
			c := config.Config{Firewall: config.Firewall{Driver: driver, Interface: "pxe", Match: "ether",
				DHCPHostsDir: filepath.Join(t.TempDir(), "missing")}}
			if err := h.Try(func() error { return CloseOffline(t.Context(), c) }); err == nil {
				t.Error("closed-offline-is-open: that no list was written is no failure")
			}
			if rules := h.said("nft", "list", "ruleset"); !strings.Contains(rules, `iifname "pxe"`) {
				t.Errorf("closed-offline-is-open: no rule keeps a machine out: %q", rules)
			}
		})
	}
}

// firewall.interface becomes a port of a bridge while the lists of driver iptables cannot be
// written: the lease keeps everything out on the bridge, also when a leader shuts it, and
// nothing opens it until the lists are made.
func TestLeaseMovesWithoutLists(t *testing.T) {
	h := newLockedHost(t)
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
	h.Do(func() error { return netlink.LinkAdd(bridge) })
	f := h.filter(config.Firewall{Driver: "iptables"})
	if err := h.opens(f); err != nil {
		t.Fatal(err)
	}
	release := h.hold()
	defer release()
	h.Change("pxe", func(l netlink.Link) error { return netlink.LinkSetMaster(l, bridge) })
	if h.remade(f) {
		t.Fatal("a filter was made without the lock")
	}
	closed := func(when string) {
		t.Helper()
		if rules := h.said("nft", "list", "ruleset"); !strings.Contains(rules, `iifname "br0"`) {
			t.Errorf("moved-without-a-lease: %s no rule keeps a machine out on br0: %q", when, rules)
		}
	}
	closed("after the move")
	if err := h.Try(func() error { return f.Lease.Shut(t.Context()) }); err != nil {
		t.Errorf("moved-without-a-lease: shut: %v", err)
	}
	closed("after shutting")
	if out := h.said("nft", "flush", "ruleset"); out != "" {
		t.Fatal(out)
	}
	if err := h.opens(f); err == nil {
		t.Error("moved-without-a-lease: the door opened without lists")
	}
	closed("after another program flushed the rules and the lists were tried again")
}

// While a filter is made again, its lease is in the new place from the beginning, and the
// old filter puts nothing into the place of that, as a leader that shuts its door would.
func TestOldFilterWritesNothingMeanwhile(t *testing.T) {
	h := newLockedHost(t)
	f := h.filter(config.Firewall{Driver: "iptables"})
	if err := h.opens(f); err != nil {
		t.Fatal(err)
	}
	l, calls := f.Lease.(*remadeFilter), 0
	l.make = func(meanwhile func(*nftables.Filter)) (Filter, error) {
		nft, err := nftables.New(firewall.Layout{Interface: "br0", Match: firewall.MatchEther}, nftables.LeaseOnly())
		if err != nil {
			return Filter{}, err
		}
		m := making{log: slog.New(slog.DiscardHandler), meanwhile: meanwhile}
		return m.tableFirst(t.Context(), nft, func(context.Context, *nftables.Filter) (Filter, error) {
			calls++
			if err := f.Lease.Shut(t.Context()); err != nil {
				t.Errorf("moved-without-a-lease: shut meanwhile: %v", err)
			}
			if got, err := f.Chains.Read(t.Context()); !errors.Is(err, firewall.ErrMisplaced) {
				t.Errorf("moved-without-a-lease: meanwhile the rules are %+v (%v)", got, err)
			}
			return Filter{}, errors.New("the lists are not there")
		})
	}
	h.remade(f)
	if rules := h.said("nft", "list", "ruleset"); calls != 1 || !strings.Contains(rules, `iifname "br0"`) {
		t.Errorf("moved-without-a-lease: %d filters were made; no rule keeps a machine out on br0: %q", calls, rules)
	}
}

// A host moves from driver iptables to another one while another program holds the lock of
// iptables: it says that the door is open only when the old chains, which drop, are gone.
func TestOldChainsAreRemovedBeforeTheDoorOpens(t *testing.T) {
	for _, driver := range []string{"nftables", "auto"} {
		t.Run(driver, func(t *testing.T) {
			h := newLockedHost(t)
			old := h.filter(config.Firewall{Driver: "iptables"})
			h.Do(func() error { return old.Chains.Replace(t.Context(), firewall.Ruleset{}) })
			chains := func() bool {
				return strings.Contains(h.said("iptables-legacy-save", "-t", "filter"), "-j TRIVET-PXE")
			}
			if !chains() {
				t.Fatal("driver iptables made no chains")
			}
			release := h.hold()
			defer release()
			f := h.filter(config.Firewall{Driver: driver})
			if err := h.opens(f); err == nil || !strings.Contains(err.Error(), "driver iptables") {
				t.Errorf("old-chains-stay: with the old chains the door opens: %v", err)
			}
			if rules := h.said("nft", "list", "ruleset"); !strings.Contains(rules, `iifname "pxe"`) {
				t.Errorf("old-chains-stay: meanwhile nothing of its own keeps a machine out: %q", rules)
			}
			release()
			if !h.remade(f) || chains() {
				t.Errorf("old-chains-stay: made again, old chains: %v", chains())
			}
			if err := h.opens(f); err != nil {
				t.Errorf("old-chains-stay: without the old chains: %v", err)
			}
		})
	}
}

// A host moves away from driver dnsmasq: files by which dnsmasq answers no machine say that
// it answers all, since the filter is elsewhere by now.
func TestOldFilesLetMachinesPass(t *testing.T) {
	h := newLockedHost(t)
	dir := filepath.Join(t.TempDir(), "hosts")
	c := config.Config{Firewall: config.Firewall{Driver: Dnsmasq, Interface: "pxe", Match: "ether", DHCPHostsDir: dir}}
	h.Do(func() error { return PurgeOffline(t.Context(), c) })
	f := h.filter(config.Firewall{Driver: "nftables", DHCPHostsDir: dir})
	if err := h.opens(f); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "unknown")); err != nil || strings.Contains(string(text), "ignore") {
		t.Errorf("old-files-stay: dnsmasq is told %q (%v)", text, err)
	}
}
