//go:build e2e

package netns_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/test/netns"
)

// A host takes packets for an address as soon as Carry has returned. The kernel
// inserts the route a moment after the address, so that a few of these addresses
// showed the gap.
func TestCarriedAddressReceivesAtOnce(t *testing.T) {
	a, b := netns.New(t), netns.New(t)
	a.Cable("wire", b, "wire")
	for n := range 200 {
		address := fmt.Sprintf("2001:db8::%x", n+1)
		a.Carry("wire", address+"/128")
		a.Do(func() error {
			routes, err := netlink.RouteGet(net.ParseIP(address))
			if err == nil && (len(routes) != 1 || routes[0].Type != unix.RTN_LOCAL) {
				err = fmt.Errorf("the host does not receive for %s: %v", address, routes)
			}
			return err
		})
	}
}

// An address of a link that is down is not waited for: it has no route.
func TestCarryOnALinkThatIsDown(t *testing.T) {
	a, b := netns.New(t), netns.New(t)
	a.Cable("wire", b, "wire")
	a.Change("wire", netlink.LinkSetDown)
	a.Carry("wire", "2001:db8::1/64")
}
