//go:build e2e

package netif

import (
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/trivet-ha/trivet/test/netns"
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
