//go:build e2e

package nftables

import (
	"testing"
	"time"

	links "github.com/vishvananda/netlink"

	"github.com/trivet-ha/trivet/firewall"
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
	f := h.filter(firewall.MatchEther)
	f.layout.Interface = pxe[:3] // whose name begins like that of the one that exists
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
