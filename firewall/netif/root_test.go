//go:build e2e

package netif

import (
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/test/netns"
	"github.com/trivet-ha/trivet/test/testwait"
)

// TestPlaceInTheKernel adds an interface to a bridge and takes it away, renames it
// and removes it.
func TestPlaceInTheKernel(t *testing.T) {
	h, other := netns.New(t), netns.New(t)
	h.Cable("pxe", other, "far")
	index := h.Link("pxe").Attrs().Index
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
	want := func(what string, want Place) {
		t.Helper()
		h.Do(func() error {
			got, err := Kernel().Place("pxe", index)
			if got != want {
				t.Errorf("place-of-packets: %s: %+v, want %+v", what, got, want)
			}
			return err
		})
	}
	want("by itself", Place{index, "pxe", "", ethernet})
	h.Do(func() error { return netlink.LinkAdd(bridge) })
	h.Change("pxe", func(l netlink.Link) error { return netlink.LinkSetMaster(l, bridge) })
	want("port of a bridge", Place{index, "br0", "bridge", ethernet})
	h.Change("pxe", netlink.LinkSetNoMaster)
	want("by itself again", Place{index, "pxe", "", ethernet})
	h.Change("pxe", netlink.LinkSetDown)
	h.Change("pxe", func(l netlink.Link) error { return netlink.LinkSetName(l, "enp3s0") })
	want("renamed", Place{index, "enp3s0", "", ethernet})
	h.Change("enp3s0", netlink.LinkDel)
	want("removed", Place{0, "pxe", "", ""})
	h.Do(func() error {
		got, err := Kernel().Place("lo", 0)
		if got.Problem("lo") == nil {
			t.Errorf("place-of-packets: the kernel's loopback passes for Ethernet: %+v", got)
		}
		return err
	})
}

// TestPrivacyAddressIsNotTold has SLAAC's address and the one that the kernel makes of it
// for privacy next to a static one, which was there before them.
func TestPrivacyAddressIsNotTold(t *testing.T) {
	h, other := netns.New(t), netns.New(t)
	h.Cable("pxe", other, "far")
	link := h.Link("pxe")
	add := func(text string, flags, life int) {
		a, err := netlink.ParseAddr(text)
		if err != nil {
			t.Fatal(err)
		}
		a.Flags, a.ValidLft, a.PreferedLft = flags|unix.IFA_F_NODAD, life, life
		h.Change("pxe", func(l netlink.Link) error { return netlink.AddrAdd(l, a) })
	}
	h.Do(func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/pxe/use_tempaddr", []byte("2"), 0) })
	add("2001:db8::21/64", 0, 0)
	add("2001:db8::5054:ff:fe00:1/64", unix.IFA_F_MANAGETEMPADDR, 86400)
	testwait.Until(t, "the kernel makes a temporary address", func() bool {
		var all []netlink.Addr
		h.Do(func() (err error) {
			all, err = netlink.AddrList(link, netlink.FAMILY_V6)
			return err
		})
		return slices.ContainsFunc(all, func(a netlink.Addr) bool {
			return a.Flags&(unix.IFA_F_TEMPORARY|unix.IFA_F_TENTATIVE) == unix.IFA_F_TEMPORARY
		})
	})
	h.Do(func() error {
		found, err := Addresses(link.Attrs().Index)
		found = slices.DeleteFunc(found, func(p netip.Prefix) bool { return p.Addr().IsLinkLocalUnicast() })
		if len(found) != 2 || found[0].String() != "2001:db8::21/64" || found[1].String() != "2001:db8::5054:ff:fe00:1/64" {
			t.Errorf("lasting-address: %v", found)
		}
		return err
	})
}
