//go:build e2e

package host

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	links "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/floatingip"
	"github.com/trivet-ha/trivet/test/netns"
	"github.com/trivet-ha/trivet/test/testwait"
)

const (
	site = "site0" // the interface that carries the address
	lan  = "lan0"  // the client's
	// silence is how long a host that answers would take at most, and shown a life that
	// no step of a test outlasts.
	silence = 300 * time.Millisecond
	shown   = time.Minute
)

// holder is a host that has the floating IP, and a client.
type holder struct {
	t *testing.T
	*netns.Host
	client  *netns.Host
	ip      string
	address *Address
	// asks is the address as the client sees it, to ask who has it.
	asks *floatingip.Address
}

func newHolder(t *testing.T, ip, own, clients string) *holder {
	t.Helper()
	h := &holder{t: t, Host: netns.New(t), client: netns.New(t), ip: ip}
	h.Cable(site, h.client, lan)
	h.Carry(site, own)
	h.client.Carry(lan, clients)
	h.open()
	var err error
	if h.asks, err = floatingip.New(config.FloatingIP{Address: ip, Interface: lan}); err != nil {
		t.Fatal(err)
	}
	return h
}

// open is what a process that starts does.
func (h *holder) open() {
	h.t.Helper()
	h.Do(func() (err error) {
		h.address, err = NewAddress(config.FloatingIP{Address: h.ip, Interface: site}, slog.New(slog.DiscardHandler))
		return err
	})
	if h.address.gate == nil {
		h.t.Fatal("the kernel cannot gate the address")
	}
}

func (h *holder) remove() {
	h.t.Helper()
	h.Do(func() error { return h.address.Remove(h.t.Context()) })
}

// tables are those that gate an address.
func (h *holder) tables() string {
	h.t.Helper()
	var said []byte
	h.Do(func() (err error) {
		said, err = exec.Command("nft", "list", "tables").Output()
		return err
	})
	return string(said)
}

// do has the guard do something.
func (h *holder) do(how func(context.Context, time.Duration) error, d time.Duration) {
	h.t.Helper()
	h.Do(func() error { return how(h.t.Context(), d) })
}

// refuses has the guard do what cannot be.
func (h *holder) refuses(want error, how func(context.Context, time.Duration) error) {
	h.t.Helper()
	if err := h.Try(func() error { return how(h.t.Context(), shown) }); !errors.Is(err, want) {
		h.t.Errorf("address-gate: %v, want %v", err, want)
	}
}

// packets reports whether the client, which may know the holder's MAC, gets an answer to
// a connection to a port on which no program listens.
func (h *holder) packets() bool {
	h.t.Helper()
	err := h.client.Try(func() error {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(h.ip, "9"), silence)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	return errors.Is(err, unix.ECONNREFUSED)
}

// expect compares what neighbours of a host that has the address see of it: who asks for
// its MAC, and who knows that.
func (h *holder) expect(when string, want bool) {
	h.t.Helper()
	h.do(h.address.Put, 5*time.Second)
	var mac string
	h.client.Do(func() (err error) {
		mac, err = h.asks.Conflict(h.t.Context(), silence)
		return err
	})
	if found, answered := mac != "", h.packets(); found != want || answered != want {
		h.t.Errorf("address-gate: %s: neighbours find it %v, packets are answered %v, want %v", when, found, answered, want)
	}
}

// TestAddressGate wants a host that has the address to be silent unless its lease is in
// force: what the kernel removes late, and a process that slept puts late, is at no
// neighbour's then. A host that does not hold the address has no gate.
func TestAddressGate(t *testing.T) {
	for name, made := range map[string][3]string{
		"IPv4": {"10.9.0.100", "10.9.0.1/24", "10.9.0.2/24"},
		"IPv6": {"fd09::100", "fd09::1/64", "fd09::2/64"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHolder(t, made[0], made[1], made[2])
			gate := h.address.gate
			h.expect("without a gate", true)
			h.do(gate.Arm, shown)
			h.expect("armed", false)
			h.do(gate.Open, shown)
			h.expect("open", true)
			h.do(gate.Hold, silence)
			testwait.Until(t, "the lease ends", func() bool { return !h.packets() })
			h.expect("after its lease", false)
			h.refuses(firewall.ErrLapsed, gate.Hold)
			h.expect("held too late", false)
			h.do(gate.Arm, shown)
			h.do(gate.Open, shown)
			h.expect("open again", true)

			h.Do(func() error { return exec.Command("nft", "flush", "ruleset").Run() })
			h.refuses(firewall.ErrForeign, gate.Hold)
			h.do(gate.Arm, shown)
			h.expect("built again", false)
			h.Do(func() error { return exec.Command("nft", "flush", "chain", "inet", "trivet_address", "output").Run() })
			h.do(gate.Arm, shown)
			h.expect("read back", false)

			h.open() // after a crash
			h.expect("until the next process removes it", false)
			h.remove()
			h.expect("carried by another program", true)
			h.do(h.address.gate.Arm, shown)
			h.Do(func() error { return h.address.Close(t.Context()) })
			h.expect("closed with the address on the host", false)
			h.remove()
			h.Do(func() error { return h.address.Close(t.Context()) })
			if said := h.tables(); strings.Contains(said, "trivet") {
				t.Errorf("address-gate: a process that ended left %q", said)
			}
			h.expect("after the process", true)
		})
	}
}

// TestOwnAddressIsNotGated leaves a host alone whose own address is configured as the
// floating one: to gate that would cut it off. A gate from before goes.
func TestOwnAddressIsNotGated(t *testing.T) {
	h := newHolder(t, "10.9.0.100", "10.9.0.1/24", "10.9.0.2/24")
	h.do(h.address.gate.Arm, shown)
	h.Carry(site, "10.9.0.100/24")
	h.refuses(floatingip.ErrForeign, h.address.gate.Arm)
	if !h.packets() {
		t.Error("own-address: the host is silent at an address of its own")
	}
	h.Do(func() error { return h.address.gate.Lease.Shut(t.Context()) }) // as a crash leaves it
	if err := h.Try(func() error { return h.address.Remove(t.Context()) }); !errors.Is(err, floatingip.ErrForeign) {
		t.Errorf("own-address: %v", err)
	}
	if !h.packets() {
		t.Error("own-address: the host is silent at an address of its own after a start")
	}
}

// TestCloseOfflineTakesTheAddressAway is what follows a process that was killed: its
// address goes at once, with its gate, whichever driver filters. What another program
// carries stays, and is no failure: no DHCP server would start.
func TestCloseOfflineTakesTheAddressAway(t *testing.T) {
	for _, others := range []string{"", "10.9.0.100/24", "10.9.0.100/32"} {
		h := newHolder(t, "10.9.0.100", "10.9.0.1/24", "10.9.0.2/24")
		h.do(h.address.gate.Arm, shown)
		if others == "" {
			h.do(h.address.Put, 5*time.Second)
		} else {
			h.Carry(site, others)
		}
		c := config.Config{Firewall: config.Firewall{Driver: Noop},
			FloatingIP: config.FloatingIP{Address: h.ip, Interface: site}}
		h.Do(func() error { return CloseOffline(t.Context(), c) })
		var held bool
		h.Do(func() error {
			all, err := net.InterfaceAddrs()
			held = slices.ContainsFunc(all, func(a net.Addr) bool { return strings.HasPrefix(a.String(), h.ip+"/") })
			return err
		})
		if said := h.tables(); held != (others != "") || strings.Contains(said, "trivet") {
			t.Errorf("close-offline: another program's %q: the address is on the host %v; tables: %q", others, held, said)
		}
	}
}

// TestOtherAddressesAreNotGated lets a host send from its own addresses, and answer for
// them, whatever becomes of the floating one.
func TestOtherAddressesAreNotGated(t *testing.T) {
	h := newHolder(t, "10.9.0.100", "10.9.0.1/24", "10.9.0.2/24")
	h.do(h.address.gate.Arm, shown)
	h.ip = "10.9.0.1"
	if !h.packets() {
		t.Error("address-gate: the host does not answer at its own address")
	}
	var known []links.Neigh
	h.client.Do(func() (err error) {
		known, err = links.NeighList(0, links.FAMILY_V4)
		return err
	})
	if len(known) != 1 || !strings.EqualFold(known[0].HardwareAddr.String(), h.MAC(site).String()) {
		t.Errorf("address-gate: the client knows %v, want the host's MAC", known)
	}
}
