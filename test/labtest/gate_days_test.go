//go:build e2e

package labtest

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/nftables"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// rebuildGoal is for how long a host whose rules somebody flushed is to offer to what
// is denied at most: 100 ms, and the time between two questions before and after.
const rebuildGoal = 100*time.Millisecond + 2*askEvery

// severed takes the leader's cable to the other peers away; machines that boot,
// clients and Ironic are still there. It closes, and another opens.
func (g *gateLab) severed() {
	g.t.Helper()
	g.strike("partition", bootLimit, func(p *Peer) {
		p.Host.Cut(Peers)
		p.aside = true // it runs and answers, but knows nothing new
	}, func(p *Peer) {
		g.shut(p)
		p.Host.Heal()
		p.aside = false
	})
}

// endsLate kills the leader, and gives its host another address in the last moments of
// the floating one. The kernel, which looks at lifetimes once a second at most, keeps that
// for a second more; no neighbour is to find it there.
func (g *gateLab) endsLate() {
	g.t.Helper()
	other := "198.18.0.9/32"
	if strings.Contains(g.floating, ":") {
		other = "2001:db8:ffff::9/128"
	}
	change := func(p *Peer, verb string) {
		p.Host.sh("ip", "address", verb, other, "dev", string(Site))
	}
	for range 3 {
		g.strike("SIGKILL, another address comes", bootLimit, func(p *Peer) {
			p.Kill9()
			testwait.Elapse(g.t, 800*time.Millisecond, "the address is about to end")
			change(p, "add")
		}, func(p *Peer) {
			change(p, "delete")
			p.Start()
		})
	}
}

// shut waits until a peer says that its door is shut, and returns why.
func (g *gateLab) shut(p *Peer) (why string) {
	g.t.Helper()
	f := await(g.t, bootLimit, p.Name+" says that its door is shut", p.filter, func(f api.Firewall) bool {
		return !f.Door.Open && !f.Address.Held && f.Door.Why != ""
	})
	g.t.Logf("%s says: %s", p.Name, f.Door.Why)
	return f.Door.Why
}

// scattered parts all three peers: every door shuts, and nobody has the address.
func (g *gateLab) scattered() {
	g.t.Helper()
	old := g.settled().Host.number
	began := time.Now()
	for _, p := range g.Peers {
		p.Host.Cut(Peers)
	}
	g.silent(bootLimit, g.allowed, g.address)
	for _, p := range g.Peers {
		g.shut(p)
	}
	for _, a := range []*asker{g.allowed, g.address} {
		all := a.since(began)
		g.t.Logf("three ways apart: %s: host %d answered for another %v", a.name, old,
			lastBy(all, old).Sub(began).Round(time.Millisecond))
		if h := judge(all, old); h.to != 0 {
			g.t.Errorf("three ways apart, somebody answered %s: %v", a.name, h)
		}
		g.longest.took(g.t, g.figure("three ways apart", g.asks(a), "late"), max(0, lastBy(all, old).Sub(began)), bootLimit)
	}
	for _, p := range g.Peers {
		p.Host.Heal()
	}
	g.WaitVoters(3)
	g.settled()
}

// flushed empties the leader's nf_tables as an administrator's script does. For
// a moment nothing filters there; then it is shut, and another host opens.
func (g *gateLab) flushed() {
	g.t.Helper()
	leader := g.settled()
	old := leader.Host.number
	began := time.Now()
	leader.Host.sh("nft", "flush", "ruleset")
	done := time.Now()
	g.taken(began, old)
	g.settled()
	window := max(0, lastBy(g.denied.since(began), old).Sub(began))
	g.t.Logf("flush, done after %v: %d offers to what is denied, the last after %v",
		done.Sub(began).Round(time.Millisecond), answered(g.denied.since(began)), window.Round(time.Millisecond))
	g.longest.took(g.t, g.figure("flush open"), max(0, window-done.Sub(began)), rebuildGoal)
	g.pardon(began, old)
	g.verdicts("flush", began, old, bootLimit)
	await(g.t, electLimit, "the flushed host has its rules again", leader.filter, func(f api.Firewall) bool {
		return f.Rules.Equal && f.Rules.Drift != 0 && !f.Door.Open
	})
}

// pardon forgives the offers to what is denied of the one host whose rules somebody
// flushed: from then until now, when another host leads.
func (g *gateLab) pardon(flushed time.Time, host int) {
	g.pardoned += count(g.denied.since(flushed), func(one asked) bool { return len(one.by) == 1 && one.by[0] == host })
}

// unplugged removes the leader's interface where machines boot, and brings it
// back: offers resume, from one host.
func (g *gateLab) unplugged() {
	g.t.Helper()
	h := g.settled().Host
	g.net.ip(h.number, "link", "del", string(PXE))
	g.Eventually(electLimit, "its offers end", func() error {
		if by := lastBy(g.allowed.since(time.Now().Add(-calm)), h.number); !by.IsZero() {
			return fmt.Errorf("it offered %v ago", time.Since(by))
		}
		return nil
	})
	back := time.Now()
	h.plug(PXE, h.pxe())
	testenv.Must(g.t, g.dhcp[h].End(syscall.SIGTERM, 5*time.Second))
	g.serveDHCP(h) // it was bound to the interface that is gone
	g.settled()
	first := judge(g.allowed.since(back), 0)
	g.t.Logf("with the interface back there were offers from host %d", first.to)
	if first.overlap > 0 {
		g.t.Errorf("after the interface came back: %v", first)
	}
}

// leftovers plants on a follower's host what a killed process may leave, a door
// that is open for a minute and the address: a peer that starts removes both, and
// the command shuts the door without a peer.
func (g *gateLab) leftovers(driver string) {
	g.t.Helper()
	g.settled()
	p := g.Followers()[0]
	p.Kill9()
	filter := p.Host.nftables(driver, PXE)
	g.leaveOpen(filter)
	floating := netip.MustParseAddr(g.floating)
	sh(g.t, "ip", "-n", g.net.ns(p.Host.number), "addr", "add", netip.PrefixFrom(floating, floating.BitLen()).String(),
		"dev", string(Site))
	p.Start()
	g.Eventually(electLimit, "leftovers are gone", func() error { return p.Host.clean(g, filter) })

	p.Kill9()
	g.leaveOpen(filter)
	p.closeOffline(driver).ended(g.t, 0)
	if err := p.Host.clean(g, filter); err != nil {
		g.t.Errorf("closed offline: %v", err)
	}
	p.Start()
	g.WaitVoters(3)
}

// nftables is the filter of the host's nf_tables on a link, as driver has it.
func (h *Host) nftables(driver string, l Link) *nftables.Filter {
	h.net.t.Helper()
	ns, err := os.Open("/run/netns/" + h.net.ns(h.number))
	testenv.Must(h.net.t, err)
	h.net.t.Cleanup(func() { _ = ns.Close() }) // nothing was written to it
	options := []nftables.Option{nftables.InNamespace(int(ns.Fd()))}
	if driver == "iptables" {
		options = append(options, nftables.LeaseOnly())
	}
	filter, err := nftables.New(firewall.Layout{Interface: string(l), Match: firewall.MatchEther}, options...)
	testenv.Must(h.net.t, err)
	return filter
}

// closeOffline shuts the door of the peer's host without a peer.
func (p *Peer) closeOffline(driver string) Result {
	return p.Trivet("firewall", "close", "--offline", "--config", "/dev/null", "--firewall-driver", driver,
		"--firewall-interface", string(PXE))
}

// leaveOpen opens a door for as long as the driver lets anybody.
func (g *gateLab) leaveOpen(filter *nftables.Filter) {
	g.t.Helper()
	lease := filter.Lease()
	err := lease.Arm(g.t.Context(), time.Minute)
	if err == nil {
		err = lease.Open(g.t.Context(), time.Minute)
	}
	if err != nil {
		g.t.Fatalf("leave a door open: %v", err)
	}
	if left, err := filter.Left(g.t.Context()); err != nil || left < time.Minute/2 {
		g.t.Fatalf("a door that was left open is so for %v (%v)", left, err)
	}
	testenv.Must(g.t, lease.Close())
}

// clean fails while the door is open or the address is there.
func (h *Host) clean(g *gateLab, filter *nftables.Filter) error {
	left, err := filter.Left(g.t.Context())
	if err != nil || left > 0 {
		return fmt.Errorf("the door is open for another %v (%v)", left, err)
	}
	out, err := h.Command("ip", "-o", "addr", "show", "dev", string(Site)).Output()
	held := slices.ContainsFunc(strings.Fields(string(out)), func(word string) bool {
		prefix, err := netip.ParsePrefix(word)
		return err == nil && prefix.Addr().String() == g.floating
	})
	if err != nil || held {
		return fmt.Errorf("the address is there: %v (%v)", held, err)
	}
	return nil
}

// powerless starts a follower that may not program its kernel: it serves, opens
// nothing, and names what it lacks.
func (g *gateLab) powerless(driver string) {
	g.t.Helper()
	g.settled()
	p := g.Followers()[0]
	p.Stop()
	able := p.Binary
	p.Binary = filepath.Join(g.dir, "powerless")
	script := fmt.Sprintf("#!/bin/sh\nexec setpriv --bounding-set=-net_admin --inh-caps=-net_admin %s \"$@\"\n", able)
	program.Write(g.t, p.Binary, script)
	r := p.closeOffline(driver)
	if r.Code == 0 || !strings.Contains(r.Err, "CAP_NET_ADMIN") {
		g.t.Errorf("without the capability the command ends with %d and does not name it:\n%s", r.Code, r.Err)
	}
	p.Start()
	await(g.t, electLimit, "it names the capability", p.filter, func(f api.Firewall) bool {
		return strings.Contains(f.Rules.Problem, "CAP_NET_ADMIN") && !f.Door.Open
	})
	p.Stop()
	p.Binary = able
	p.Start()
	g.WaitVoters(3)
}

// TestVerdicts tries what the others rely on.
func TestVerdicts(t *testing.T) {
	one, two, three, none := []int{1}, []int{2}, []int{3}, []int(nil)
	for name, c := range map[string]struct {
		all  []asked
		want handOver
	}{
		"clean":         {answersOf(one, none, none, two, two), handOver{to: 2, gap: 3 * askEvery}},
		"no host":       {answersOf(one, none, none), handOver{}},
		"at once both":  {answersOf(one, []int{1, 2}, two), handOver{to: 2, gap: askEvery, overlap: 1}},
		"old afterward": {answersOf(one, two, two, one), handOver{to: 2, gap: askEvery, overlap: 1, late: 2 * askEvery}},
		"a third":       {answersOf(one, two, three), handOver{to: 2, gap: askEvery, overlap: 1, late: askEvery}},
		"again":         {answersOf(one, none, two, none, three, three), handOver{to: 2, gap: 2 * askEvery, again: 1}},
		"the second, too": {answersOf(one, none, two, none, three, two),
			handOver{to: 2, gap: 2 * askEvery, again: 1, overlap: 1, late: 3 * askEvery}},
		"and back": {answersOf(one, none, two, none, one),
			handOver{to: 2, gap: 2 * askEvery, overlap: 1, late: 2 * askEvery}},
	} {
		if got := judge(c.all, 1); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if got, want := story(answersOf(one, one, none, []int{2, 3})), "0s [1], 100ms [], 150ms [2 3]"; got != want {
		t.Errorf("story: %s, want %s", got, want)
	}
}
