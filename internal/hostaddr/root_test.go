//go:build e2e

package hostaddr

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/test/netns"
	"github.com/trivet-ha/trivet/test/testwait"
)

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
		found, err := Lasting(link.Attrs().Index)
		found = slices.DeleteFunc(found, func(p netip.Prefix) bool { return p.Addr().IsLinkLocalUnicast() })
		if len(found) != 2 || found[0].String() != "2001:db8::21/64" || found[1].String() != "2001:db8::5054:ff:fe00:1/64" {
			t.Errorf("lasting-address: %v", found)
		}
		return err
	})
	h.Do(func() error {
		from, err := Towards("[2001:db8::99]:7350")
		if from != "2001:db8::21" && from != "2001:db8::5054:ff:fe00:1" {
			t.Errorf("lasting-address: others are reached from %s", from)
		}
		return err
	})
}

// TestInwardBridgesOfTheKernel has docker0, which is down, cni0 with a container, and a bridge of a container's
// own NIC, by which its default route goes.
func TestInwardBridgesOfTheKernel(t *testing.T) {
	h, other := netns.New(t), netns.New(t)
	h.Cable("eth0", other, "far")
	h.Cable("veth0", netns.New(t), "eth0")
	for bridge, port := range map[string]string{"docker0": "", "cni0": "veth0", "br-own": "eth0"} { // order-free
		h.Do(func() error {
			return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge}})
		})
		if port != "" {
			master := h.Link(bridge)
			h.Change(port, func(l netlink.Link) error { return netlink.LinkSetMaster(l, master) })
			h.Change(bridge, netlink.LinkSetUp)
		}
	}
	inward := func(want ...string) {
		t.Helper()
		h.Do(func() error {
			found, err := InwardBridges()
			if !slices.Equal(found, want) {
				t.Errorf("inward-bridge: %v, want %v", found, want)
			}
			return err
		})
	}
	inward("br-own", "cni0", "docker0")
	h.Carry("br-own", "192.0.2.1/24")
	inward("br-own", "cni0", "docker0")
	at := h.Link("br-own").Attrs().Index
	h.Do(func() error {
		return netlink.RouteAdd(&netlink.Route{LinkIndex: at, Gw: net.IPv4(192, 0, 2, 254)})
	})
	inward("cni0", "docker0")
}
