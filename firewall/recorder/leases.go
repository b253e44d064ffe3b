package recorder

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/simplelru"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/boots"
)

// maxLeases bounds the addresses whose machines are remembered: the one that was given or used
// longest ago makes room.
const maxLeases = 10_000

// recalled is how old a lease in a boot track may be that the next leader goes on with.
const recalled = 10 * time.Minute

// lease is who was given an address.
type lease struct {
	mac     string
	relayed bool // through a DHCP relay: the machine's frames come from a router's MAC
}

// tenant is a machine in one family of addresses: it has one at a time.
type tenant struct {
	mac string
	six bool
}

// leases are the addresses of machines under introspection. Its methods are for one goroutine at
// a time.
type leases struct {
	byAddress *simplelru.LRU // of lease, by netip.Addr
	of        map[tenant]netip.Addr
}

func newLeases() leases {
	of := make(map[tenant]netip.Addr)
	byAddress, err := simplelru.NewLRU(maxLeases, func(at, given any) {
		delete(of, tenant{given.(lease).mac, at.(netip.Addr).Is6()})
	})
	if err != nil {
		panic(err) // of a size below 1 alone
	}
	return leases{byAddress, of}
}

// grant notes that a machine was given an address. It has no other of this family any more, and
// no other machine has this one.
func (l leases) grant(at netip.Addr, mac string, relayed bool) {
	if before, ok := l.byAddress.Peek(at); ok && before.(lease).mac == mac {
		relayed = relayed || before.(lease).relayed // a lease is renewed without the relay
	}
	l.byAddress.Remove(at)
	who := tenant{mac, at.Is6()}
	if before, ok := l.of[who]; ok {
		l.byAddress.Remove(before)
	}
	l.byAddress.Add(at, lease{mac, relayed})
	l.of[who] = at
}

// answered takes from a machine the address that a server gives to another one, whether or not
// that message is read.
func (l leases) answered(f frame, client string) {
	const address, kind, offer = 16, 242, 2
	if !f.Src.Addr().Is4() || !answers(f) || len(f.Body) < address+4 {
		return
	}
	if len(f.Body) > kind && f.Body[kind-2] == 53 && f.Body[kind] == offer {
		return // which gives nothing away yet
	}
	at := netip.AddrFrom4([4]byte(f.Body[address : address+4]))
	if given, ok := l.byAddress.Peek(at); ok && given.(lease).mac != client {
		l.byAddress.Remove(at)
	}
}

// holder is the MAC of the machine that sent a frame from an address: the one that was given it.
// A frame of a machine that no router is in front of comes from its own MAC. "": there is none.
func (l leases) holder(at netip.Addr, from net.HardwareAddr) string {
	given, ok := l.byAddress.Get(at)
	if !ok || !given.(lease).relayed && given.(lease).mac != from.String() {
		return ""
	}
	return given.(lease).mac
}

// recall takes over the leases that were heard by another leader just now.
func (l leases) recall(v fsm.View, awaited func(track boots.Track, mac string) bool, now time.Time) {
	var given []boots.Step
	for track := range v.BootTracks() {
		for _, s := range track.Steps {
			if s.Kind == boots.Leased && now.UnixMilli()-s.LastMillis < recalled.Milliseconds() && awaited(track, s.MAC) {
				given = append(given, s)
			}
		}
	}
	slices.SortStableFunc(given, func(a, b boots.Step) int { return cmp.Compare(a.LastMillis, b.LastMillis) })
	for _, s := range given {
		if at, err := netip.ParseAddr(s.Address); err == nil {
			l.grant(at, s.MAC, s.Relay != "")
		}
	}
}
