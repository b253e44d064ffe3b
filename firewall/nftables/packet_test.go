//go:build e2e

package nftables

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	links "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/rawsocket"
)

// Machines of the tests, by how the lists see them.
const (
	allowed = "52:54:00:00:00:01"
	denied  = "52:54:00:00:00:02"
	both    = "52:54:00:00:00:03" // known, and under introspection
	unknown = "52:54:00:00:00:04"
	router  = "52:54:00:00:00:99"
)

var sample = firewall.Ruleset{Allow: []string{allowed, both}, Deny: []string{denied, both}}

// everyPort calls want for every gated port over both protocols.
func everyPort(want func(port uint16, six bool)) {
	for _, port := range firewall.Gated() {
		want(port, false)
		want(port, true)
	}
}

func (f *far) expect(p packet, want bool) {
	f.t.Helper()
	if got := f.reaches(p); got != want {
		f.t.Errorf("%+v gets through: %v, want %v", p, got, want)
	}
}

func TestNothingPassesAClosedDoor(t *testing.T) {
	h := newHost(t)
	far := h.cable()
	f := h.filter(firewall.MatchEther)
	far.expect(packet{from: denied, port: 67}, true) // without a filter
	l, c := h.lease(f), h.chains(f)
	r := sample
	r.Pass = true
	h.must(c.Replace(t.Context(), r))
	everyPort(func(port uint16, six bool) {
		for _, mac := range []string{allowed, denied, both, unknown} {
			far.expect(packet{from: mac, port: port, six: six}, false)
		}
	})
	h.must(l.Arm(t.Context(), time.Minute))
	far.expect(packet{from: allowed, port: 67}, false)
	h.must(f.Remove(t.Context()))
	far.expect(packet{from: denied, port: 67}, true)
}

func TestListsDecideBelowTheLease(t *testing.T) {
	h := newHost(t)
	far := h.cable()
	f := h.filter(firewall.MatchEther)
	l, c := h.lease(f), h.chains(f)
	for _, pass := range []bool{true, false} {
		r := sample
		r.Pass = pass
		h.must(c.Replace(t.Context(), r))
		h.open(l, time.Minute)
		everyPort(func(port uint16, six bool) {
			far.expect(packet{from: allowed, port: port, six: six}, true)
			far.expect(packet{from: both, port: port, six: six}, true)
			far.expect(packet{from: denied, port: port, six: six}, false)
			far.expect(packet{from: unknown, port: port, six: six}, pass)
		})
		// A machine behind a router renews: it asks nobody to relay.
		for _, port := range []uint16{67, 4011} {
			far.expect(packet{from: router, client: denied, port: port, unicast: true}, false)
			far.expect(packet{from: router, client: unknown, port: port, unicast: true}, pass)
			far.expect(packet{from: allowed, client: denied, port: port}, false)
			far.expect(packet{from: allowed, client: both, port: port}, true)
			far.expect(packet{from: denied, client: allowed, port: port}, false)
		}
	}
	h.must(c.Change(t.Context(), firewall.Change{Unallow: []string{allowed}, Undeny: []string{denied}, Pass: new(true)}))
	far.expect(packet{from: both, port: 67}, true)
	far.expect(packet{from: denied, port: 67}, true)
	h.must(l.Shut(t.Context()))
	far.expect(packet{from: both, port: 67}, false)
}

func TestALeaseThatEndsClosesTheDoor(t *testing.T) {
	h := newHost(t)
	far := h.cable()
	f := h.filter(firewall.MatchEther)
	l := h.lease(f)
	h.must(h.chains(f).Replace(t.Context(), firewall.Ruleset{Pass: true}))
	h.open(l, 2*time.Second) // long enough for a packet on a busy machine
	far.expect(packet{from: unknown, port: 67}, true)
	eventually(t, "the lease ends", func() bool { return h.left(f) == 0 })
	far.expect(packet{from: unknown, port: 67}, false)
}

func TestChaddrIsMatchedBehindARelay(t *testing.T) {
	h := newHost(t)
	far := h.cable()
	f := h.filter(firewall.MatchChaddr)
	l, c := h.lease(f), h.chains(f)
	r := sample
	r.Pass = true
	h.must(c.Replace(t.Context(), r))
	h.open(l, time.Minute)
	for _, port := range []uint16{67, 4011} {
		for _, relayed := range []bool{true, false} { // and a machine behind a router that renews
			far.expect(packet{from: router, client: allowed, port: port, unicast: true, relayed: relayed}, true)
			far.expect(packet{from: router, client: both, port: port, unicast: true, relayed: relayed}, true)
			far.expect(packet{from: router, client: denied, port: port, unicast: true, relayed: relayed}, false)
			far.expect(packet{from: router, client: unknown, port: port, unicast: true, relayed: relayed}, true)
		}
		far.expect(packet{from: denied, port: port}, false)
		// Without a relay the frame is the machine's own.
		far.expect(packet{from: denied, client: unknown, port: port}, false)
		far.expect(packet{from: denied, client: allowed, port: port}, false)
		far.expect(packet{from: denied, client: allowed, port: port, unicast: true}, false)
		far.expect(packet{from: both, client: unknown, port: port}, true)
		far.expect(packet{from: denied, client: allowed, port: port, unicast: true, relayed: true}, true)
	}
	far.expect(packet{from: denied, client: unknown, port: 547, six: true}, false)
	far.expect(packet{from: unknown, client: denied, port: 547, six: true}, true)
	far.expect(packet{from: both, client: denied, port: 547, six: true}, true)
}

// TestNoRelayHidesAMachine wants nothing to get through that only a relay's
// frame stands for, whichever machine it is about and however much is let
// through otherwise.
func TestNoRelayHidesAMachine(t *testing.T) {
	for name, tt := range map[string]struct {
		match   firewall.Match
		options []Option
	}{
		"ether":          {match: firewall.MatchEther},
		"chaddr":         {match: firewall.MatchChaddr},
		"the lease only": {match: firewall.MatchEther, options: []Option{LeaseOnly()}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			far := h.cable()
			f := h.filter(tt.match, tt.options...)
			l := h.lease(f)
			if tt.options == nil {
				r := sample
				r.Allow, r.Pass = append(r.Allow, router), true // somebody introspects the relay itself
				h.must(h.chains(f).Replace(t.Context(), r))
			}
			h.open(l, time.Minute)
			for _, client := range []string{allowed, denied, both, unknown} {
				for _, from := range []string{router, unknown} {
					for _, port := range []uint16{547, 4011} {
						far.expect(packet{from: from, client: client, port: port, six: true, relayed: true}, false)
					}
					if tt.match == firewall.MatchEther {
						far.expect(packet{from: from, client: client, port: 67, unicast: true, relayed: true}, false)
						far.expect(packet{from: from, client: client, port: 4011, relayed: true}, false)
					}
				}
			}
			far.expect(packet{from: allowed, port: 67}, true)
			far.expect(packet{from: allowed, port: 547, six: true}, true)
		})
	}
}

func TestOnlyTheInterfaceOfTheLayoutIsFiltered(t *testing.T) {
	h := newHost(t)
	far := h.cable()
	// Its name begins like that of the one that exists.
	f, err := New(firewall.Layout{Interface: pxe[:3], Match: firewall.MatchEther}, InNamespace(h.FD()))
	h.must(err)
	h.lease(f)
	far.expect(packet{from: denied, port: 67}, true)
}

func TestTheInterfaceMayGoAndComeBack(t *testing.T) {
	h := newHost(t)
	h.cable()
	f := h.filter(firewall.MatchEther)
	l := h.lease(f)
	h.must(h.chains(f).Replace(t.Context(), firewall.Ruleset{Deny: []string{denied}, Pass: true}))
	h.open(l, time.Minute)
	h.Change(pxe, links.LinkDel)
	far := h.cable()
	far.expect(packet{from: unknown, port: 67}, true)
	far.expect(packet{from: denied, port: 67}, false)
	h.must(l.Shut(t.Context()))
	far.expect(packet{from: unknown, port: 67}, false)
}

func TestWithoutListsTheLeaseAloneDecides(t *testing.T) {
	h := newHost(t)
	far := h.cable()
	f := h.filter(firewall.MatchEther, LeaseOnly())
	l, c := h.lease(f), h.chains(f)
	far.expect(packet{from: unknown, port: 67}, false)
	h.open(l, time.Minute)
	far.expect(packet{from: unknown, port: 67}, true)
	far.expect(packet{from: unknown, port: 547, six: true}, true)
	if err := c.Replace(t.Context(), firewall.Ruleset{}); err == nil {
		t.Error("lists were programmed")
	}
	h.must(l.Shut(t.Context()))
	far.expect(packet{from: unknown, port: 67}, false)
}

// TestTheKernelWithholdsASecondOffer sends a DHCP server's answers from the host, and
// looks at what reaches the machines' LAN. An offer is remembered, and for offerLife, and
// how often one was withheld.
func TestTheKernelWithholdsASecondOffer(t *testing.T) {
	const offer, ack, nak = 2, 5, 6
	for _, options := range [][]Option{nil, {LeaseOnly()}} {
		h := newHost(t)
		far := h.cable()
		h.Carry(pxe, "198.51.100.1/24")
		f := h.filter(firewall.MatchEther, options...)
		h.lease(f)
		for i, c := range []struct {
			kind, address, client byte
			arrives               bool
		}{
			{offer, 130, 1, true}, {offer, 130, 2, false}, {offer, 130, 1, true}, {offer, 131, 2, true}, {offer, 131, 1, false},
			{ack, 130, 2, true}, {nak, 130, 2, true}, {offer, 130, 1, true},
			{offer, 130, 2, false}, {offer, 130, 2, false}, {offer, 130, 2, true}, {offer, 130, 1, true},
		} {
			if got := far.isAnswered(answer(c.kind, c.address, c.client).udp[8:]); got != c.arrives {
				t.Errorf("answer %d of kind %d arrives: %v, want %v", i+1, c.kind, got, c.arrives)
			}
		}
		s := f.socket()
		for name, want := range map[string]int{setOffered: 2, setOffers: 3} {
			elements, err := f.members(t.Context(), s, name)
			h.must(err)
			if len(elements) != want || elements[0].left > offerLife || elements[0].left < offerLife-labLimit/2 {
				t.Errorf("set %s has %+v, want %d for %v", name, elements, want, offerLife)
			}
		}
		h.must(s.close())
		if seen, err := f.readRules(t.Context(), f.socket()); err != nil || seen.foreign != "" {
			t.Errorf("it is not as planned: %q, %v", seen.foreign, err)
		}
		h.must(f.Seal(t.Context())) // offers do not keep it from being shut
	}
}

// isAnswered sends a message from the host's DHCP port and reports whether the far end
// sees it. That it does not is known when a later one is there.
func (f *far) isAnswered(message []byte) (seen bool) {
	f.t.Helper()
	f.sent++
	witness := fmt.Appendf(nil, "answer %d was sent", f.sent)
	server := f.listen(false, dhcpServer).(*net.UDPConn)
	defer func() { f.must(server.Close()) }()
	for _, m := range [][]byte{message, witness} {
		_, err := server.WriteTo(m, &net.UDPAddr{IP: net.IPv4(198, 51, 100, 255), Port: 68})
		if err != nil && !errors.Is(err, unix.EPERM) { // which the sender of what is dropped is told
			f.t.Fatal(err)
		}
	}
	f.must(f.socket.SetReadDeadline(time.Now().Add(labLimit)))
	frame := make([]byte, rawsocket.MaxFrame)
	for {
		n, err := f.socket.Read(frame)
		if err != nil {
			f.t.Fatal(err)
		}
		if bytes.Contains(frame[:n], witness) {
			return seen
		}
		seen = seen || bytes.Contains(frame[:n], message)
	}
}
