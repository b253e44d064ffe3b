//go:build e2e

package labtest

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// TestStoppedBetweenProofAndWrite stops the leader's process after the proof of
// its leadership and before what it writes on the strength of it, and lets it go
// on when another host's door is open: the door does not open, and the address
// is not answered for.
func TestStoppedBetweenProofAndWrite(t *testing.T) {
	t.Parallel()
	testenv.NeedRoot(t, "ip")
	s := StoppableBinary(t)
	for _, driver := range []string{"nftables", "iptables"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			g := gateKind{furnish: func(p *Peer) { p.Binary = s.Binary }}.build(t, driver)
			g.Introspect(g.machines[:1])
			g.allowed = g.discover(t, g.machines[0])
			long := longDays()
			for _, place := range []string{afterProof, beforeSwap, beforePut, beforeShow} {
				if long {
					g.stopped(s, place, "")
				}
				if long || driver == "nftables" || place == beforeSwap { // the same code, but for the table
					g.stopped(s, place, "back")
				}
			}
			if driver == "nftables" {
				g.lacking(s, lacksSets, "nft_set_hash")
				g.lacking(s, lacksNftables, "CONFIG_NF_TABLES")
			}
		})
	}
}

// stopped stops the leader at a place, waits for another's door, and looks at
// what the one that was stopped does when it goes on.
func (g *gateLab) stopped(s *Stoppable, place, clock string) {
	g.t.Helper()
	g.settled()
	began := time.Now()
	leader := s.stopLeader(g.Lab, place, clock, electLimit, nil)
	old := leader.Host.number
	g.taken(began, old)
	said := len(leader.Log())
	leader.Cont()
	testwait.Elapse(g.t, 2*calm, "see what the old leader does when it goes on")
	what := "stopped at " + place + " " + clock
	g.verdicts(what, began, old, bootLimit)
	if place == beforeSwap || place == beforeShow {
		g.refused(place, leader.Log()[said:])
	}
	leader.Stop() // with it goes the clock that was turned back
	leader.Start()
	g.WaitVoters(3)
	g.settled()
}

// lacking starts a follower on a kernel without a part: with every driver it opens
// nothing and names what is missing.
func (g *gateLab) lacking(s *Stoppable, part, named string) {
	g.t.Helper()
	g.settled()
	p := g.Followers()[0]
	p.Stop()
	able, env := p.Binary, p.Env
	s.without(p, part)
	// such a kernel had none
	p.Host.sh("nft", "delete", "table", "inet", "trivet_pxe")
	for _, driver := range []string{"nftables", "iptables", "auto"} {
		p.closeOffline(driver).ended(g.t, 1, named)
		p.Env = append(slices.Clone(env), "TRIVET_FIREWALL_DRIVER="+driver)
		p.Start()
		await(g.t, electLimit, "with driver "+driver+" it names what the kernel lacks", p.filter, func(f api.Firewall) bool {
			return strings.Contains(f.Rules.Problem, named) && !f.Door.Open
		})
		p.Stop()
	}
	p.Binary, p.Env = able, env
	p.Start()
	g.WaitVoters(3)
}

// refused wants the kernel to have met a late write, and to have made none of it.
func (g *gateLab) refused(place, log string) {
	g.t.Helper()
	_, rest, found := strings.Cut(log, "the kernel said to the late "+place+": ")
	line, _, _ := strings.Cut(rest, "\n")
	if !found || !strings.Contains(line, syscall.ENOENT.Error()) {
		g.t.Errorf("the kernel said to a late %s: %q; want %q", place, line, syscall.ENOENT)
	}
}
