//go:build e2e

package recorder

import (
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall/rawsocket"
	"github.com/trivet-ha/trivet/test/netns"
	"github.com/trivet-ha/trivet/test/testwait"
)

// TestRealWire hears an interface of the kernel, which takes the tags off frames: what is of a
// VLAN on its cable is not of its network, what has a priority alone is.
func TestRealWire(t *testing.T) {
	machine, host := netns.New(t), netns.New(t)
	machine.Cable("pxe", host, "pxe")
	heard := listen(t, host, "pxe")
	index := machine.Link("pxe").Attrs().Index
	send := func(mac string, tag ...byte) {
		b := slices.Insert(ask(t, mac, dhcpv4.MessageTypeDiscover), 12, tag...)
		machine.Do(func() error {
			s, err := rawsocket.Open(index, unix.ETH_P_ALL, nil)
			if err != nil {
				return err
			}
			return errors.Join(s.Send(b), s.Close())
		})
	}
	const first = "52:54:00:00:00:77"
	testwait.Until(t, "the recorder listens", func() bool {
		send(first)
		return len(heard) > 0
	})
	send(stranger1, 0x81, 0, 0, 5)
	send(machine2, 0x81, 0, 0xe0, 0)
	send(machine1)
	for _, want := range []string{machine2, machine1} {
		got := first
		for got == first {
			got = testwait.Receive(t, heard, "a frame is heard")
		}
		if got != want {
			t.Errorf("heard is %s, want %s", got, want)
		}
	}
}

// listen hears whose DISCOVERs come on a link, until the test ends.
func listen(t *testing.T, h *netns.Host, link string) <-chan string {
	heard := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	wire := Interface{Name: link, Place: func(name string, _ int) (int, error) {
		at, err := net.InterfaceByName(name)
		if err != nil {
			return 0, err
		}
		return at.Index, nil
	}}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		if err := unix.Setns(h.FD(), unix.CLONE_NEWNET); err != nil {
			ended <- err
			return
		}
		ended <- wire.Listen(ctx, func(b []byte, _ net.HardwareAddr) {
			if f, ok := rawsocket.ReadFrame(b); ok && dhcpReader(f) != nil {
				heard <- clientMAC(f)
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := testwait.Receive(t, ended, "the listener ends"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return heard
}
