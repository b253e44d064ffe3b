//go:build e2e

package floatingip_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall/floatingip"
	"github.com/trivet-ha/trivet/test/netns"
	"github.com/trivet-ha/trivet/test/testwait"
)

// pollEvery is how often a condition is looked at, and waitLimit how long.
const (
	pollEvery = 10 * time.Millisecond
	waitLimit = 20 * time.Second
)

// lan is the interface of a host that leads to the others.
const lan = "lan"

// switchboard is a bridge in a network namespace of its own.
type switchboard struct {
	*host
	ports int
}

// host is a host of the tests.
type host struct {
	t *testing.T
	*netns.Host
}

func newHost(t *testing.T) *host {
	t.Helper()
	return &host{t, netns.New(t)}
}

func newSwitch(t *testing.T) *switchboard {
	t.Helper()
	s := &switchboard{host: newHost(t)}
	s.Do(func() error {
		off := false // or it would wait for members of groups to report
		return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "bridge"}, MulticastSnooping: &off})
	})
	s.Change("bridge", netlink.LinkSetUp)
	return s
}

// newHost adds a host with addresses of its own, 10.9.0.N and fd09::N.
func (s *switchboard) newHost(n int) *host {
	s.t.Helper()
	h := newHost(s.t)
	s.plug(h, lan)
	h.Carry(lan, fmt.Sprintf("10.9.0.%d/24", n))
	h.Carry(lan, fmt.Sprintf("fd09::%d/64", n))
	return h
}

// plug leads a cable from the switch to a new interface of h.
func (s *switchboard) plug(h *host, name string) {
	s.t.Helper()
	s.ports++
	port, bridge := fmt.Sprintf("port%d", s.ports), s.Link("bridge")
	s.Cable(port, h.Host, name)
	s.Change(port, func(link netlink.Link) error { return netlink.LinkSetMaster(link, bridge) })
}

// mac returns the hardware address of a link.
func (h *host) mac(name string) string { return h.MAC(name).String() }

// neighbour returns the MAC that the host remembers for ip, "" for none.
func (h *host) neighbour(ip string) string {
	h.t.Helper()
	var address string
	h.Do(func() error {
		list, err := netlink.NeighList(0, netlink.FAMILY_ALL)
		for _, entry := range list {
			if entry.IP.Equal(net.ParseIP(ip)) {
				address = entry.HardwareAddr.String()
			}
		}
		return err
	})
	return address
}

// finds reports whether a neighbour answers the host's ARP for ip, asked anew.
func (h *host) finds(ip string) (found bool) {
	h.t.Helper()
	for name, value := range map[string]string{"retrans_time_ms": "100", "mcast_solicit": "2"} {
		h.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/neigh/"+lan+"/"+name, []byte(value), 0) })
	}
	h.Change(lan, func(link netlink.Link) error {
		err := netlink.NeighDel(&netlink.Neigh{LinkIndex: link.Attrs().Index, IP: net.ParseIP(ip)})
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return err
	})
	h.speak(ip)
	eventually(h.t, "ARP for "+ip+" ends", func() (ended bool) {
		h.Do(func() error {
			list, err := netlink.NeighList(0, netlink.FAMILY_V4)
			for _, entry := range list {
				if entry.IP.Equal(net.ParseIP(ip)) {
					found = entry.State&netlink.NUD_REACHABLE != 0
					ended = found || entry.State&netlink.NUD_FAILED != 0
				}
			}
			return err
		})
		return ended
	})
	return found
}

// speak sends a datagram to ip and returns the source that the kernel chose.
func (h *host) speak(ip string) (source netip.Addr) {
	h.t.Helper()
	h.Do(func() error {
		conn, err := net.Dial("udp", net.JoinHostPort(ip, "9"))
		if err != nil {
			return err
		}
		defer conn.Close()
		source = conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr()
		_, err = conn.Write([]byte("hello"))
		return err
	})
	return source
}

// floating is the address as a host under test carries it.
type floating struct {
	*host
	address *floatingip.Address
}

func (h *host) floats(ip string) floating {
	h.t.Helper()
	address, err := floatingip.New(config.FloatingIP{Address: ip, Interface: lan})
	if err != nil {
		h.t.Fatal(err)
	}
	return floating{host: h, address: address}
}

func (f floating) put(valid time.Duration) {
	f.t.Helper()
	f.Do(func() error { return f.address.Put(f.t.Context(), valid) })
}

func (f floating) remove() {
	f.t.Helper()
	f.Do(func() error { return f.address.Remove(f.t.Context()) })
}

func (f floating) announce() {
	f.t.Helper()
	f.Do(func() error { return f.address.Announce(f.t.Context()) })
}

func (f floating) held() (held bool) {
	f.t.Helper()
	f.Do(func() error {
		all, err := net.InterfaceAddrs()
		held = slices.ContainsFunc(all, func(a net.Addr) bool {
			return strings.HasPrefix(a.String(), f.address.IP().String()+"/")
		})
		return err
	})
	return held
}

func (f floating) conflict(ctx context.Context, wait time.Duration) (holder string, err error) {
	err = f.Try(func() (err error) {
		holder, err = f.address.Conflict(ctx, wait)
		return err
	})
	return holder, err
}

// eventually polls until check holds.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	testwait.UntilWithin(t, waitLimit, what, check)
}
