package netns

import (
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// Host is a network namespace and the thread that lives in it: when the thread
// ends, so does the namespace. Its methods but Try are for the goroutine of the
// test.
type Host struct {
	t    testing.TB
	jobs chan func() // closed when the test ends
	ns   *os.File
}

// New returns a host without links but lo, which is up.
func New(t testing.TB) *Host {
	t.Helper()
	testenv.NeedRoot(t)
	h := &Host{t: t, jobs: make(chan func())}
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
	h.Do(func() (err error) {
		h.ns, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	t.Cleanup(func() {
		if err := h.ns.Close(); err != nil {
			t.Error(err)
		}
	})
	h.Change("lo", netlink.LinkSetUp)
	return h
}

// Try runs f on the host and returns its error. Sockets that f opens stay on the
// host, whoever uses them. f must not call methods of this host: its one thread
// would wait for itself.
func (h *Host) Try(f func() error) error {
	done := make(chan error)
	h.jobs <- func() { done <- f() }
	return <-done
}

// Do runs f on the host; it has to succeed.
func (h *Host) Do(f func() error) {
	h.t.Helper()
	if err := h.Try(f); err != nil {
		h.t.Fatal(err)
	}
}

// FD is a descriptor of the namespace, for as long as the test runs.
func (h *Host) FD() int { return int(h.ns.Fd()) }

// Link returns a link of the host, which has to have it.
func (h *Host) Link(name string) (link netlink.Link) {
	h.t.Helper()
	h.Do(func() (err error) {
		link, err = netlink.LinkByName(name)
		return err
	})
	return link
}

// Change does something to a link of the host, such as netlink.LinkSetDown.
func (h *Host) Change(name string, change func(netlink.Link) error) {
	h.t.Helper()
	h.Do(func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return change(link)
	})
}

// Carry gives a link of the host an address, written with its mask, as in
// 192.0.2.1/24, and waits until the host receives what is sent to it. The link is
// up, or an IPv6 address is not waited for.
func (h *Host) Carry(name, address string) {
	h.t.Helper()
	h.CarryFor(name, address, 0, 0)
}

// CarryFor is Carry for so many seconds, of which fewer preferred; zero stands
// for ever.
func (h *Host) CarryFor(name, address string, valid, preferred int) {
	h.t.Helper()
	entry, err := netlink.ParseAddr(address)
	if err != nil {
		h.t.Fatal(err)
	}
	entry.ValidLft, entry.PreferedLft = valid, preferred
	six := entry.IP.To4() == nil
	if six {
		entry.Flags = unix.IFA_F_NODAD // or the kernel looks for a conflict first, for a second
	}
	h.Change(name, func(link netlink.Link) error { return netlink.AddrAdd(link, entry) })
	if !six || h.Link(name).Attrs().Flags&net.FlagUp == 0 {
		return
	}
	testwait.UntilWithin(h.t, carryLimit, "link "+name+" receives for "+address, func() (ready bool) {
		link := h.Link(name)
		h.Do(func() (err error) {
			ready, err = receives(link, entry.IP)
			return err
		})
		return ready
	})
}

// receives reports whether a link of this host takes packets for an IPv6 address.
// The kernel adds the address at once, but a worker of its own inserts the route of
// table local a moment later; what arrives before is dropped.
func receives(link netlink.Link, ip net.IP) (bool, error) {
	addresses, err := netlink.AddrList(link, netlink.FAMILY_V6)
	if err != nil {
		return notYet(err)
	}
	const unready = unix.IFA_F_TENTATIVE | unix.IFA_F_OPTIMISTIC | unix.IFA_F_DADFAILED
	if !slices.ContainsFunc(addresses, func(a netlink.Addr) bool { return a.IP.Equal(ip) && a.Flags&unready == 0 }) {
		return false, nil
	}
	local := netlink.Route{Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V6, &local, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_TYPE)
	if err != nil {
		return notYet(err)
	}
	return slices.ContainsFunc(routes, func(r netlink.Route) bool { return r.Dst != nil && r.Dst.IP.Equal(ip) }), nil
}

// notYet forgives a dump during which the table changed: the next one tells.
func notYet(err error) (bool, error) {
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		return false, nil
	}
	return false, err
}

// MAC returns the hardware address of a link.
func (h *Host) MAC(name string) net.HardwareAddr {
	h.t.Helper()
	return h.Link(name).Attrs().HardwareAddr
}

// Cable joins a new link of h to a new link of another host, or of h itself, and
// waits until both carry.
func (h *Host) Cable(name string, other *Host, otherName string) {
	h.t.Helper()
	h.Do(func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: otherName,
			PeerNamespace: netlink.NsFd(other.FD())})
	})
	h.Change(name, netlink.LinkSetUp)
	other.Change(otherName, netlink.LinkSetUp)
	h.carries(name)
	other.carries(otherName)
}

// carryLimit is how long a cable may take to carry, and an address until it receives.
const carryLimit = 10 * time.Second

func (h *Host) carries(name string) {
	h.t.Helper()
	testwait.UntilWithin(h.t, carryLimit, "link "+name+" carries",
		func() bool { return h.Link(name).Attrs().OperState == netlink.OperUp })
}
