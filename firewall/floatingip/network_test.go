//go:build e2e

package floatingip_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall/rawsocket"
)

// request is an ARP request of a host for its gateway, with a tag if there is one.
func request(h *host, ip [4]byte, tag ...byte) []byte {
	mac := h.MAC(lan)
	all := []byte{255, 255, 255, 255, 255, 255}
	return slices.Concat(all, mac, tag, []byte{8, 6, 0, 1, 8, 0, 6, 4, 0, 1}, mac, ip[:], make([]byte, 64))
}

// bridged gives a host a bridge called lan, with a port on the switch.
func (s *switchboard) bridged() *host {
	s.t.Helper()
	h := newHost(s.t)
	s.plug(h, "port")
	h.Do(func() error { return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: lan}}) })
	index := h.Link(lan).Attrs().Index
	h.Change("port", func(l netlink.Link) error { return netlink.LinkSetMasterByIndex(l, index) })
	h.Carry(lan, "10.9.0.1/24")
	h.Change(lan, netlink.LinkSetUp)
	return h
}

// TestClaimsOfOtherNetworks: a machine in a VLAN on the same cable has the same address, as tenants' networks
// do. It is no claim, whether or not this host has an interface for that VLAN; a tag of priority alone is of
// this network.
func TestClaimsOfOtherNetworks(t *testing.T) {
	const here = 100
	for name, c := range map[string]struct {
		tag   []byte
		claim bool
	}{
		"untagged":                {nil, true},
		"priority alone":          {[]byte{0x81, 0, 0xe0, 0}, true},
		"a VLAN of this host":     {[]byte{0x81, 0, 0, here}, false},
		"a VLAN that is not here": {[]byte{0x81, 0, 0, 200}, false},
	} {
		for _, bridged := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", on a bridge: ", bridged), func(t *testing.T) {
				lab := newSwitch(t)
				at, other := lab.newHost(1), lab.newHost(2)
				if bridged {
					at = lab.bridged()
				}
				if bytes.HasSuffix(c.tag, []byte{here}) {
					attrs := netlink.LinkAttrs{Name: "v", ParentIndex: at.Link(lan).Attrs().Index}
					vlan := &netlink.Vlan{LinkAttrs: attrs, VlanId: here}
					if err := at.Try(func() error { return netlink.LinkAdd(vlan) }); err != nil {
						t.Skipf("not all kernels know VLANs: %v", err)
					}
					at.Change("v", netlink.LinkSetUp)
				}
				want := ""
				if c.claim {
					want = other.mac(lan)
				}
				answered := asked(t, other, request(other, [4]byte{10, 9, 0, 100}, c.tag...))
				if got, err := at.floats("10.9.0.100").conflict(t.Context(), 2*time.Second); err != nil || got != want {
					t.Errorf("claim-of-another-network: conflict with %q, %v; want %q", got, err, want)
				}
				answered()
			})
		}
	}
}

// asked has a host send a frame once it hears ARP, as its asker then has a socket. The caller waits for it.
func asked(t *testing.T, h *host, frame []byte) (wait func()) {
	t.Helper()
	var s rawsocket.Socket
	index := h.Link(lan).Attrs().Index
	h.Do(func() (err error) {
		s, err = rawsocket.Open(index, unix.ETH_P_ARP, nil)
		return err
	})
	var work sync.WaitGroup
	work.Go(func() {
		heard := false
		err := s.Listen(t.Context(), time.Minute, func([]byte) bool { heard = true; return true })
		if err = errors.Join(err, s.Send(frame), s.Close()); err != nil || !heard {
			t.Errorf("no question was heard, or: %v", err)
		}
	})
	return work.Wait
}

// TestPortsAreRefused: on a port of a bridge no claim of another host is heard, since the bridge takes the frames.
func TestPortsAreRefused(t *testing.T) {
	lab := newSwitch(t)
	a, b := lab.newHost(1).floats("10.9.0.100"), lab.newHost(2).floats("10.9.0.100")
	a.Do(func() error { return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}) })
	index := a.Link("br0").Attrs().Index
	a.Change(lan, func(l netlink.Link) error { return netlink.LinkSetMasterByIndex(l, index) })
	a.Change("br0", netlink.LinkSetUp)
	b.put(10 * time.Second)
	got, err := a.conflict(t.Context(), time.Second)
	put := a.Try(func() error { return a.address.Put(t.Context(), time.Second) })
	for _, err := range []error{err, put} {
		if err == nil || !strings.Contains(err.Error(), "lan is a port of br0 (bridge), which takes its frames; write br0") {
			t.Errorf("port-refused: %v (conflict with %q)", err, got)
		}
	}
}
