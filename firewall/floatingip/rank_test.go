//go:build e2e

package floatingip_test

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// order lists a host's IPv4 addresses of its interface as its programs find them.
func (h *host) order() (order []string) {
	h.t.Helper()
	link := h.Link(lan)
	h.Do(func() error {
		all, err := netlink.AddrList(link, netlink.FAMILY_V4)
		for _, a := range all {
			order = append(order, a.IPNet.String())
		}
		return err
	})
	return order
}

// do changes a host step by step: "+" and an address adds it, of the scope of the link or the host where that is
// said, "-" takes it away, and "put" has Put write it.
func (h *host) do(steps string) {
	h.t.Helper()
	for step := range strings.FieldsSeq(steps) {
		if ip, puts := strings.CutPrefix(step, "put="); puts {
			h.floats(ip).put(10 * time.Second)
			continue
		}
		text, scope, _ := strings.Cut(step[1:], "@")
		entry, err := netlink.ParseAddr(text)
		if err != nil {
			h.t.Fatal(err)
		}
		switch scope {
		case "link":
			entry.Scope = unix.RT_SCOPE_LINK
		case "old": // as Trivet put it until v0.2.0
			entry.Scope, entry.ValidLft = unix.RT_SCOPE_HOST, 10
		}
		h.Change(lan, func(link netlink.Link) error {
			if step[0] == '-' {
				return netlink.AddrDel(link, entry)
			}
			return netlink.AddrAdd(link, entry)
		})
	}
}

// TestOwnAddressComesFirst: dnsmasq calls itself by the first address of the interface, and the kernel sends from it.
func TestOwnAddressComesFirst(t *testing.T) {
	for name, c := range map[string]struct{ steps, want string }{
		"own there before":     {"+10.9.0.1/24", "10.9.0.1/24 10.9.0.100/32"},
		"own added":            {"put=10.9.0.100 +10.9.0.1/24", "10.9.0.1/24 10.9.0.100/32"},
		"own without a subnet": {"put=10.9.0.100 +10.9.0.1/32", "10.9.0.1/32 10.9.0.100/32"},
		"own put again":        {"+10.9.0.1/24 put=10.9.0.100 -10.9.0.1/24 +10.9.0.1/24", "10.9.0.1/24 10.9.0.100/32"},
		"own away for a time": {"+10.9.0.1/24 put=10.9.0.100 -10.9.0.1/24 put=10.9.0.100 +10.9.0.1/24",
			"10.9.0.1/24 10.9.0.100/32"},
		"own changed":        {"+10.9.0.1/24 put=10.9.0.100 +10.9.0.2/25 -10.9.0.1/24", "10.9.0.2/25 10.9.0.100/32"},
		"own in two subnets": {"+10.9.0.1/24 put=10.9.0.100 +192.0.2.1/24", "10.9.0.1/24 192.0.2.1/24 10.9.0.100/32"},
		"own and a second": {"+10.9.0.1/24 +10.9.0.2/24 put=10.9.0.100 +10.9.0.3/24",
			"10.9.0.1/24 10.9.0.100/32 10.9.0.2/24 10.9.0.3/24"}, // neither of the latter is a source
		"put by an older version": {"+10.9.0.1/24 +10.9.0.100/32@old", "10.9.0.1/24 10.9.0.100/32"},
		"link-local alone":        {"+169.254.7.7/16@link", "169.254.7.7/16 10.9.0.100/32"},
		"own after link-local": {"+169.254.7.7/16@link put=10.9.0.100 +10.9.0.1/24",
			"169.254.7.7/16 10.9.0.1/24 10.9.0.100/32"},
		// Neither is put again and again for the other.
		"another cluster's": {"+10.9.0.1/24 put=10.9.0.100 put=10.9.0.101", "10.9.0.1/24 10.9.0.100/32 10.9.0.101/32"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			newSwitch(t).plug(h, lan)
			h.do(c.steps)
			h.do("put=10.9.0.100")
			if got := h.order(); !slices.Equal(got, strings.Fields(c.want)) {
				t.Errorf("own-address-first: the interface has %v, want %s", got, c.want)
			}
			h.Change(lan, func(link netlink.Link) error {
				everywhere := &net.IPNet{IP: net.IPv4zero, Mask: make(net.IPMask, net.IPv4len)}
				return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: everywhere})
			})
			for _, to := range []string{"10.9.0.7", "198.51.100.1"} {
				if got := h.speak(to); got == netip.MustParseAddr("10.9.0.100") {
					t.Errorf("own-address-first: the source for %s is %s", to, got)
				}
			}
		})
	}
}
