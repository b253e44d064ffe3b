//go:build e2e

package floatingip_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/floatingip"
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

// host is a network namespace without a name and the thread that lives in it:
// when the thread ends, so do the namespace and all its links, also when the
// tester is killed.
type host struct {
	t    *testing.T
	jobs chan func()
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, jobs: make(chan func())} // closed when the test ends
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		ready <- unix.Unshare(unix.CLONE_NEWNET)
		for job := range h.jobs {
			job()
		}
	}()
	t.Cleanup(func() { close(h.jobs) })
	if err := <-ready; err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	return h
}

// try runs f on the host and returns its error.
func (h *host) try(f func() error) error {
	done := make(chan error)
	h.jobs <- func() { done <- f() }
	return <-done
}

// do runs f on the host; it has to succeed.
func (h *host) do(f func() error) {
	h.t.Helper()
	if err := h.try(f); err != nil {
		h.t.Fatal(err)
	}
}

// up sets a link up.
func (h *host) up(name string) {
	h.t.Helper()
	h.do(func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(link)
	})
}

// carry gives a link of the host an address of its own, written with its mask.
func (h *host) carry(name, address string) {
	h.t.Helper()
	h.do(func() error { return carry(name, address, 0, 0) })
}

func carry(name, address string, valid, preferred int) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	entry, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	entry.ValidLft, entry.PreferedLft = valid, preferred
	if entry.IP.To4() == nil {
		entry.Flags = unix.IFA_F_NODAD
	}
	return netlink.AddrAdd(link, entry)
}

func newSwitch(t *testing.T) *switchboard {
	t.Helper()
	needRoot(t)
	s := &switchboard{host: newHost(t)}
	s.do(func() error {
		off := false // or it would wait for members of groups to report
		return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "bridge"}, MulticastSnooping: &off})
	})
	s.up("bridge")
	return s
}

// needRoot skips the test without root, or fails it where CI=true lets nothing
// be skipped.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("it needs root, and CI=true lets nothing be skipped")
	}
	t.Skip("it needs root")
}

// newHost adds a host with addresses of its own, 10.9.0.N and fd09::N.
func (s *switchboard) newHost(n int) *host {
	s.t.Helper()
	h := newHost(s.t)
	h.up("lo")
	s.plug(h, lan)
	h.carry(lan, fmt.Sprintf("10.9.0.%d/24", n))
	h.carry(lan, fmt.Sprintf("fd09::%d/64", n))
	return h
}

// plug leads a cable from the switch to a new interface of h.
func (s *switchboard) plug(h *host, name string) {
	s.t.Helper()
	var there *os.File
	h.do(func() (err error) {
		there, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	defer there.Close()
	s.ports++
	port := fmt.Sprintf("port%d", s.ports)
	s.do(func() error {
		bridge, err := netlink.LinkByName("bridge")
		if err != nil {
			return err
		}
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: port, MasterIndex: bridge.Attrs().Index},
			PeerName:  name, PeerNamespace: netlink.NsFd(there.Fd()),
		})
	})
	s.up(port)
	h.up(name)
}

// mac returns the hardware address of a link.
func (h *host) mac(name string) string {
	h.t.Helper()
	var address string
	h.do(func() error {
		link, err := netlink.LinkByName(name)
		if err == nil {
			address = link.Attrs().HardwareAddr.String()
		}
		return err
	})
	return address
}

// neighbour returns the MAC that the host remembers for ip, "" for none.
func (h *host) neighbour(ip string) string {
	h.t.Helper()
	var address string
	h.do(func() error {
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

// speak sends a datagram to ip and returns the source that the kernel chose.
func (h *host) speak(ip string) (source netip.Addr) {
	h.t.Helper()
	h.do(func() error {
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
	f.do(func() error { return f.address.Put(f.t.Context(), valid) })
}

func (f floating) remove() {
	f.t.Helper()
	f.do(func() error { return f.address.Remove(f.t.Context()) })
}

func (f floating) announce() {
	f.t.Helper()
	f.do(func() error { return f.address.Announce(f.t.Context()) })
}

func (f floating) held() (held bool) {
	f.t.Helper()
	f.do(func() (err error) {
		held, err = f.address.Held(f.t.Context())
		return err
	})
	return held
}

func (f floating) conflict(ctx context.Context, wait time.Duration) (holder string, err error) {
	err = f.try(func() (err error) {
		holder, err = f.address.Conflict(ctx, wait)
		return err
	})
	return holder, err
}

// eventually polls until check holds.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for began := time.Now(); !check(); <-tick.C {
		if time.Since(began) > waitLimit {
			t.Fatalf("not within %v: %s", waitLimit, what)
		}
	}
}
