//go:build e2e

package labtest

import (
	"testing"
	"time"
)

// TestGateByNftablesIPv6 and TestGateByIptablesIPv6 try the gate with machines
// that boot, and an address that floats, over IPv6; a machine that boots over
// IPv4 at the same time meets the same door.
func TestGateByNftablesIPv6(t *testing.T) { gateSix(t, "nftables") }

func TestGateByIptablesIPv6(t *testing.T) { gateSix(t, "iptables") }

func gateSix(t *testing.T, driver string) {
	t.Parallel()
	g := gateKind{machines: 3, six: true}.build(t, driver)
	deniedFour := g.discover(t, g.machines[1])
	g.comesAndGoes(t)
	g.Introspect(g.machines[:1])
	g.allowed = g.boot(t, g.machines[0])
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
	g := gateKind{machines: 3, env: []string{"TRIVET_FIREWALL_MATCH=chaddr"}}.build(t, "nftables")
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
