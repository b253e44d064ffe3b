//go:build e2e

package labtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/test/labtest/openstack"
)

// Numbers of DHCPv6 that only relays use, and where the options of their
// messages begin (RFC 8415 section 9).
const (
	forwardKind   = 12
	replyKind     = 13
	optionMessage = 9 // what is passed on
	relayHead     = 34
)

// forward is what a solicit becomes when a relay passes it on.
type forward struct {
	solicit
	relay net.HardwareAddr
	from  netip.Addr // the relay's, on the servers' link and on the machine's
}

func (f forward) frame(n int) []byte {
	message := append([]byte{forwardKind, 0}, f.from.AsSlice()...)
	message = append(message, linkLocal(f.mac).AsSlice()...)
	message = option6(message, optionMessage, f.message(n))
	return frame6(f.relay, f.from, netip.MustParseAddr("ff05::1:3"), unix.IPPROTO_UDP, 6, udp6(547, message))
}

func (f forward) answer(frame []byte) (n, bits, host int, ok bool) {
	if len(frame) < atDHCP6+relayHead || frame[atHeader6] != unix.IPPROTO_UDP || frame[atDHCP6] != replyKind {
		return 0, 0, 0, false
	}
	for code, inner := range options6(frame[atDHCP6+relayHead:]) {
		if code == optionMessage && len(inner) > 4 && inner[0] == advertiseKind && bytes.Equal(client6(inner), f.duid()) {
			return int(binary.BigEndian.Uint32(inner) & (1<<timeBits - 1)), timeBits, int(frame[11]), true
		}
	}
	return 0, 0, 0, false
}

// relayed asks for an offer over IPv4 from behind a relay, which is the client.
func (g *gateLab) relayed(t *testing.T, m openstack.Machine) *asker {
	t.Helper()
	at := hardware(t, m.MAC)
	r := &relay{mac: hardware(t, mac(PXE, clientHost)), from: net.ParseIP(g.client.pxe()), to: net.ParseIP(pxeNet + "255")}
	return g.client.ask(t, "a relayed offer to "+m.Name, PXE, unix.ETH_P_IP,
		discover{mac: at, family: uint32(at[5]) + 1 + relayedFamily, relay: r})
}

// forwarded asks for the same over IPv6.
func (g *gateLab) forwarded(t *testing.T, m openstack.Machine) *asker {
	t.Helper()
	q := forward{solicit{hardware(t, m.MAC)}, hardware(t, mac(PXE, clientHost)),
		netip.MustParseAddr(fmt.Sprint(pxeNet6, clientHost))}
	return g.client.ask(t, "a relayed advertisement to "+m.Name, PXE, unix.ETH_P_IPV6, q)
}

// stranger is a machine that Ironic does not know.
func stranger() openstack.Machine {
	return openstack.Machine{Name: "a stranger", MAC: "52:54:00:99:00:40"}
}

// behindRelays are machines whose requests a relay passes on, over both versions
// of IP: one that is introspected, one on the blacklist, and a stranger.
type behindRelays []*asker

func (g *gateLab) behindRelays(t *testing.T) (all behindRelays) {
	for _, m := range []openstack.Machine{g.machines[0], g.machines[1], stranger()} {
		all = append(all, g.relayed(t, m), g.forwarded(t, m))
	}
	return all
}

// unheard wants that none of them was ever answered, and that it was the filter
// which saw to it: a host without one answers all.
func (b behindRelays) unheard(t *testing.T, g *gateLab) {
	t.Helper()
	for _, a := range b {
		all := a.since(time.Time{})
		if n := answered(all); n > 0 || len(all) == 0 {
			t.Errorf("%d of %d times somebody answered %s", n, len(all), a.name)
		}
	}
	p := g.Followers()[0]
	p.Stop()
	for _, command := range [][]string{{"nft", "flush", "ruleset"}, {"iptables", "-F", "INPUT"},
		{"ip6tables", "-F", "INPUT"}} {
		p.Host.sh(command...)
	}
	for _, a := range b {
		g.Eventually(electLimit, "a host without a filter answers "+a.name, func() error {
			return atLeast(int64(steady(a.since(time.Time{}), p.Host.number)), 2)
		})
	}
	p.Start()
	g.WaitVoters(3)
}

// TestGateByNftablesIPv6 and TestGateByIptablesIPv6 try the gate with machines
// that boot, and an address that floats, over IPv6; a machine that boots over
// IPv4 at the same time meets the same door.
func TestGateByNftablesIPv6(t *testing.T) { gateSix(t, "nftables") }

func TestGateByIptablesIPv6(t *testing.T) { gateSix(t, "iptables") }

func gateSix(t *testing.T, driver string) {
	t.Parallel()
	g := gateKind{six: true}.build(t, driver)
	deniedFour := g.discover(t, g.machines[1])
	g.comesAndGoes(t)
	g.waits(t)
	four := g.discover(t, g.machines[0])
	strange, behind := g.boot(t, stranger()), g.behindRelays(t)
	g.handOvers(3, 1, 1)
	g.endsLate()
	g.severed()
	g.unplugged()
	g.leftovers(driver)
	began, leader := time.Now(), g.settled().Host.number
	g.Eventually(electLimit, "the same host offers over IPv4, and to a stranger", func() error {
		return atLeast(int64(min(steady(four.since(began), leader), steady(strange.since(began), leader))), 10)
	})
	g.sum(t)
	if n := answered(deniedFour.since(time.Time{})); n > 0 {
		t.Errorf("the machine on the blacklist got %d offers over IPv4", n)
	}
	if n := doubled(four.since(time.Time{})); n > 0 {
		t.Errorf("%d times two hosts offered over IPv4", n)
	}
	behind.unheard(t, g)
}

// doubled counts the times that more than one host answered.
func doubled(all []asked) int { return count(all, func(one asked) bool { return len(one.by) > 1 }) }

// TestGateBehindRelays tries the match by the client's address inside DHCP: all
// that hosts see comes from a relay's MAC. DHCPv6 has no such address: what a
// relay passes on of it gets nothing.
func TestGateBehindRelays(t *testing.T) {
	t.Parallel()
	g := gateKind{env: []string{"TRIVET_FIREWALL_MATCH=chaddr"}}.build(t, "nftables")
	denied := []*asker{g.relayed(t, g.machines[1]), g.forwarded(t, g.machines[0]), g.forwarded(t, g.machines[1]),
		g.forwarded(t, stranger())}
	g.Introspect(g.machines[:1])
	g.allowed = g.relayed(t, g.machines[0])
	direct := g.discover(t, g.machines[0])
	g.handOvers(2, 0, 1)
	began, leader := time.Now(), g.settled().Host.number
	g.Eventually(electLimit, "a machine on the hosts' own link gets offers, too", func() error {
		return atLeast(int64(steady(direct.since(began), leader)), 10)
	})
	g.sum(t)
	for _, a := range denied {
		if n := answered(a.since(time.Time{})); n > 0 {
			t.Errorf("%d times somebody answered %s", n, a.name)
		}
	}
}
