//go:build e2e

package host

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os/exec"
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

// holder is a host that has the floating IP, with the gate of it and a client.
type holder struct {
	t *testing.T
	*netns.Host
	client  *netns.Host
	ip      string
	address *floatingip.Address
	// asks is the address as the client sees it, to ask who has it.
	asks *floatingip.Address
	gate *AddressGate
}

func newHolder(t *testing.T, ip, own, clients string) *holder {
	t.Helper()
	h := &holder{t: t, Host: netns.New(t), client: netns.New(t), ip: ip}
	h.Cable(site, h.client, lan)
	h.Carry(site, own)
	h.client.Carry(lan, clients)
	for iface, made := range map[string]**floatingip.Address{site: &h.address, lan: &h.asks} {
		address, err := floatingip.New(config.FloatingIP{Address: ip, Interface: iface})
		if err != nil {
			t.Fatal(err)
		}
		*made = address
	}
	return h
}

// open makes the gate, shut as a guard has it at its start.
func (h *holder) open() {
	h.t.Helper()
	h.Do(func() (err error) {
		if h.gate, err = NewAddressGate(netip.MustParseAddr(h.ip), h.address); err != nil {
			return err
		}
		return h.gate.Shut(h.t.Context())
	})
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
// neighbour's then. When the host has lost the address the gate goes with its peer.
func TestAddressGate(t *testing.T) {
	for name, made := range map[string][3]string{
		"IPv4": {"10.9.0.100", "10.9.0.1/24", "10.9.0.2/24"},
		"IPv6": {"fd09::100", "fd09::1/64", "fd09::2/64"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHolder(t, made[0], made[1], made[2])
			h.expect("without a gate", true)
			h.open()
			h.expect("shut", false)
			h.do(h.gate.Arm, shown)
			h.expect("armed", false)
			h.do(h.gate.Open, shown)
			h.expect("open", true)
			h.do(h.gate.Hold, silence)
			testwait.Until(t, "the lease ends", func() bool { return !h.packets() })
			h.expect("after its lease", false)
			h.refuses(firewall.ErrLapsed, h.gate.Hold)
			h.expect("held too late", false)
			h.do(h.gate.Arm, shown)
			h.do(h.gate.Open, shown)
			h.expect("open again", true)

			h.Do(func() error { return exec.Command("nft", "flush", "ruleset").Run() })
			h.refuses(firewall.ErrForeign, h.gate.Hold)
			h.refuses(firewall.ErrForeign, h.gate.Arm)
			h.Do(func() error { return h.gate.Shut(t.Context()) })
			h.expect("built again", false)

			h.Do(func() error { return h.gate.Close(t.Context()) })
			h.expect("closed with the address on the host", false)
			h.open()
			h.Do(func() error { return h.address.Remove(t.Context()) })
			h.Do(func() error { return h.gate.Close(t.Context()) })
			h.expect("closed without it", true)
		})
	}
}

// TestOtherAddressesAreNotGated lets a host send from its own addresses, and answer for
// them, whatever becomes of the floating one.
func TestOtherAddressesAreNotGated(t *testing.T) {
	h := newHolder(t, "10.9.0.100", "10.9.0.1/24", "10.9.0.2/24")
	h.open()
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
	h.Do(func() error { return h.gate.Close(t.Context()) })
}
