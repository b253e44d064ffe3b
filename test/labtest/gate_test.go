//go:build e2e

package labtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/testwait"
)

// TestGateByNftables and TestGateByIptables try the gate of three hosts: one
// door, one address, whatever happens to who has them.
func TestGateByNftables(t *testing.T) { gate(t, "nftables") }

func TestGateByIptables(t *testing.T) { gate(t, "iptables") }

func gate(t *testing.T, driver string) {
	t.Parallel()
	g := gateKind{}.build(t, driver)
	g.comesAndGoes(t)
	g.waits(t)
	g.handOvers(3, 3, 3)
	g.endsLate()
	g.severed()
	g.scattered()
	g.unplugged()
	g.leftovers(driver)
	g.powerless(driver)
	g.flushed()
	g.sum(t)
}

// handOvers strikes the leader as often as told, or twenty times each where
// time does not matter.
func (g *gateLab) handOvers(kills, stops, terms int) {
	g.t.Helper()
	if longDays() {
		kills, stops, terms = 20, 20, 20
	}
	for range kills {
		g.strike("SIGKILL", bootLimit, (*Peer).Kill9, (*Peer).Start)
	}
	for range stops {
		g.strike("SIGSTOP", bootLimit, (*Peer).Pause, func(p *Peer) {
			testwait.Elapse(g.t, 5*time.Second, "the leader stays stopped")
			p.Cont()
			testwait.Elapse(g.t, calm, "see what it does when it goes on")
		})
	}
	for range terms {
		g.strike("SIGTERM", 2*time.Second, (*Peer).Stop, (*Peer).Start) // a host that had to wait would need more
	}
}

// sum is the verdict on all that was asked.
func (g *gateLab) sum(t *testing.T) {
	t.Helper()
	share(t, g.figure("steady_share"), g.right, g.all, steadyShare)
	t.Logf("between hand-overs %d of %d times there was exactly one answer", g.right, g.all)
	if n := answered(g.denied.since(time.Time{})); n > g.pardoned {
		t.Errorf("the machine on the blacklist got %d offers", n)
	}
}

// comesAndGoes introspects a machine: it gets offers, of the leader's host alone,
// until it has finished.
func (g *gateLab) comesAndGoes(t *testing.T) {
	m := g.machines[2]
	offers := g.boot(t, m)
	g.WaitLeader()
	g.silent(electLimit, offers)
	fleet := g.Fleet(nil)
	began := time.Now()
	g.Introspect([]openstack.Machine{m}, g.Followers()[0])
	took := time.Since(began)
	leader := g.WaitLeader().Host.number
	g.Eventually(electLimit, "the leader's host offers",
		func() error { return atLeast(int64(steady(offers.since(began), leader)), 10) })
	first := judge(offers.since(began), 0)
	t.Logf("the call took %v; offers came from host %d", took.Round(time.Millisecond), first.to)
	if first.to != leader || first.overlap > 0 {
		t.Errorf("offers did not come from the leader's host %d alone: %v", leader, first)
	}
	fleet.Add(m.Hardware())
	fleet.Power(m.UUID, "power on")
	g.MustFinish(endLimit, []openstack.Machine{m})
	g.silent(electLimit, offers)
}

// strike does something to the leader and later undoes it. Meanwhile another
// host must take over, at no time beside the old one. That it does so within a
// goal is a figure.
func (g *gateLab) strike(what string, goal time.Duration, do, undo func(*Peer)) {
	g.t.Helper()
	began, old := g.trouble(do, undo)
	g.verdicts(what, began, old, goal)
}

// verdicts are those of both askers.
func (g *gateLab) verdicts(what string, began time.Time, old int, goal time.Duration) {
	g.t.Helper()
	g.verdict(what, g.allowed, began, old, goal)
	g.verdict(what, g.address, began, old, goal)
}

// trouble does something to the leader, undoes it once another host has taken
// over, and returns when it began and who led.
func (g *gateLab) trouble(do, undo func(*Peer)) (began time.Time, old int) {
	g.t.Helper()
	leader := g.settled()
	old = leader.Host.number
	began = time.Now()
	do(leader)
	g.awaitTaken(began, old)
	undo(leader)
	g.WaitVoters(3)
	g.settled()
	return began, old
}

// verdict reads what one asker saw since a strike: no answer of the old host amid
// those of the next.
func (g *gateLab) verdict(what string, a *asker, began time.Time, old int, goal time.Duration) {
	g.t.Helper()
	all, around := a.since(began), a.since(began.Add(-calm))
	h := judge(around, old)
	g.t.Logf("%s of host %d: %s: %v", what, old, a.name, h)
	if h.overlap > 0 || h.to == 0 {
		g.t.Errorf("%s of host %d: %s: %v; want another host, and no overlap; answered: %s", what, old, a.name, h,
			story(around))
	}
	g.longest.took(g.t, g.figure(what, g.asks(a), "gap"), h.gap, goal)
	for n, one := range all {
		if len(one.by) > 0 && one.by[0] == h.to {
			g.right += steady(all[n:], h.to)
			g.all += len(all[n:])
			return
		}
	}
}

// TestGateByDnsmasq kills leaders whose lists are files for dnsmasq. The files of
// a dead host go on letting machines in; what shuts it is the lease.
func TestGateByDnsmasq(t *testing.T) {
	t.Parallel()
	g := gateKind{}.build(t, "dnsmasq")
	g.waits(t)
	for range 2 {
		g.strike("SIGKILL", bootLimit, func(p *Peer) {
			p.Kill9()
			open, err := os.ReadFile(filepath.Join(g.hostsDir(p.Host), g.machines[0].MAC))
			if err != nil || strings.Contains(string(open), ",ignore") {
				t.Errorf("the dead host's file does not let the machine in: %q (%v)", open, err)
			}
		}, (*Peer).Start)
	}
	g.sum(t)
}
