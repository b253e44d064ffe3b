//go:build e2e

package labtest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/wiretap"
)

// midway is a follower that is in the middle of a start of some nodes and of
// a callback of others; the tap holds its calls.
type midway struct {
	*SiteLab
	victim     *Peer
	machines   []openstack.Machine // all there are
	starting   map[string]bool
	processing map[string]bool
	reads      *wiretap.Injected // of nodes that start: go on when lifted
	patches    *wiretap.Injected // of nodes whose data is processed: cut when lifted
}

// newMidway brings that about. Who works on a node is the peers' choice, so
// nodes are started until the victim has got some.
func newMidway(t *testing.T, ironic *openstack.Ironic) *midway {
	s := NewHosts(t).Introspecting(ironic.Addr, "TRIVET_INSPECTION_WORKERS=8")
	s.Trio()
	m := &midway{SiteLab: s, victim: s.Followers()[0], machines: ironic.Enroll(0, 12)}
	first, second := m.machines[:6], m.machines[6:]
	s.Fleet(m.machines)
	m.patches = s.Tap.Inject(
		wiretap.Fault{Door: m.victim.Name, Method: "PATCH", Path: among(first, "$"), Hold: true, Cut: wiretap.Request})
	m.processing = m.until(first, m.patches)
	m.reads = s.Tap.Inject(wiretap.Fault{Door: m.victim.Name, Method: "GET", Path: among(second, `(\?|$)`), Hold: true})
	m.starting = m.until(second, m.reads)
	t.Logf("%s starts %d nodes and processes the data of %d", m.victim.Name, len(m.starting), len(m.processing))
	return m
}

// until introspects the machines until the fault holds a call, while the others
// finish. It returns the nodes whose calls are held.
func (m *midway) until(machines []openstack.Machine, held *wiretap.Injected) map[string]bool {
	m.t.Helper()
	const tries = 6 // each leaves the victim out with (2/3)^6
	for range tries {
		m.Tap.Forget()
		m.Introspect(machines, m.WaitLeader())
		m.Eventually(endLimit, "all have ended but those that are held", func() error {
			n, all, err := m.InState(machines, "finished")
			if err == nil && n+held.Held() != len(machines) {
				err = fmt.Errorf("%d are held, of all %s", held.Held(), summary(machines, all))
			}
			return err
		})
		if held.Held() > 0 {
			return m.workedOn(m.victim, machines, held.Method)
		}
	}
	m.t.Fatalf("%s got no work in %d rounds", m.victim.Name, tries)
	return nil
}

// takenOver waits until the others have ended what the victim had begun, and
// checks that they did it once.
func (m *midway) takenOver() {
	m.t.Helper()
	reports := m.WaitEnd(endLimit, m.machines)
	for _, machine := range m.machines {
		r := reports[machine.UUID]
		switch {
		case m.processing[machine.UUID]:
			if r.State != "error" || !m.victim.named(r.Reason()) {
				m.t.Errorf("%s was under way on %s: %s %q, want an error that names the peer", machine.Name, m.victim.Name, r.State,
					r.Reason())
			}
		case r.State != "finished":
			m.t.Errorf("%s ended in error: %s", machine.Name, r.Reason())
		}
		if n := m.Tap.PowerCalls("rebooting")[machine.UUID]; m.starting[machine.UUID] && n != 1 {
			m.t.Errorf("%s was powered on %d times", machine.Name, n)
		}
	}
}

// silent wants no call from the victim about any of the nodes since a moment. From
// when it may have been in contact again it may read them: a ramdisk that got 503
// repeats its callback to any peer, which looks the node up. That a worker without
// its claim reads nothing either is shown in inspector, in virtual time.
func (m *midway) silent(since, contact time.Time) {
	m.t.Helper()
	for _, c := range m.Tap.Calls(since, "", among(m.machines, "")) {
		reads := c.Method == http.MethodGet && c.Began.After(contact)
		if c.Door == m.victim.Name && !reads {
			m.t.Errorf("%s went on: %s %s, %v after it lost its claims", m.victim.Name, c.Method, c.Path,
				c.Began.Sub(since).Round(time.Millisecond))
		}
	}
}

// pausedWorker stops the process of a worker in the middle of a start and of a
// callback until its session is over. When it goes on it must leave Ironic alone:
// the tap holds answers, so that it is not stopped between a check and its write.
func pausedWorker(t *testing.T, ironic *openstack.Ironic) {
	m := newMidway(t, ironic)
	m.victim.Pause()
	m.reads.Lift()
	m.patches.Lift()
	m.takenOver()
	resumed := time.Now()
	m.victim.Cont()
	m.WaitVoters(3)
	m.WaitSame()
	m.silent(resumed, resumed)
}

// partitionedWorker cuts a worker off from the other peers, but not from
// Ironic. The others do its work, and it must find out by itself in time.
func partitionedWorker(t *testing.T, ironic *openstack.Ironic) {
	m := newMidway(t, ironic)
	m.victim.Host.Cut(Peers)
	m.victim.aside = true // it runs and answers, but knows nothing new
	m.takenOver()
	lifted := time.Now()
	m.reads.Lift()
	m.patches.Lift()
	m.Eventually(electLimit, "its calls have ended", func() error {
		if n := m.reads.Held() + m.patches.Held(); n > 0 {
			return fmt.Errorf("%d are under way", n)
		}
		return nil
	})
	healed := time.Now()
	m.victim.Host.Heal()
	m.victim.aside = false
	m.WaitVoters(3)
	m.WaitSame()
	m.silent(lifted, healed)
}

// stoppedWorker stops a worker as a service manager does, in the middle of a
// start and of a callback: it ends in time and well, what it had not begun to
// change is done elsewhere, and the rest is told.
func stoppedWorker(t *testing.T, ironic *openstack.Ironic) {
	m := newMidway(t, ironic)
	began := time.Now()
	m.victim.Stop()
	t.Logf("%s stopped in %v", m.victim.Name, time.Since(began).Round(time.Millisecond))
	m.reads.Lift()
	m.patches.Lift()
	m.takenOver()
	m.victim.Start()
	m.WaitVoters(3)
	m.WaitSame()
}

// leaderKilled kills the leader in the middle of twenty introspections: the tap
// holds at least three nodes each in starting, waiting and processing.
func leaderKilled(t *testing.T, ironic *openstack.Ironic) {
	s := NewHosts(t).Introspecting(ironic.Addr, "TRIVET_INSPECTION_WORKERS=8")
	s.Trio()
	machines := ironic.Enroll(0, 20)
	starting, processing, waiting := machines[:6], machines[6:12], machines[12:]
	boots := s.Tap.Inject(wiretap.Fault{Method: "PUT", Path: among(starting, "/states/power"), Body: "rebooting",
		Hold: true})
	patches := s.Tap.Inject(wiretap.Fault{Method: "PATCH", Path: among(processing, "$"), Hold: true})
	fleet := s.Fleet(slices.Concat(starting, processing))

	s.Introspect(machines, s.Followers()[0])
	s.Eventually(endLimit, "calls are held", func() error {
		if boots.Held() != len(starting) || patches.Held() != len(processing) {
			return fmt.Errorf("%d of %d starts, %d of %d callbacks", boots.Held(), len(starting), patches.Held(),
				len(processing))
		}
		return nil
	})
	s.WaitState(endLimit, waiting, "waiting")
	leader := s.WaitLeader()
	for state, least := range map[string]int{"starting": 3, "waiting": 3, "processing": 3} {
		if n, all, err := s.InState(machines, state); err != nil || n < least {
			t.Fatalf("%d nodes are %s when the leader dies, want at least %d: %s (%v)", n, state, least, summary(machines, all),
				err)
		}
	}
	lost, resumed := s.workedOn(leader, processing, "PATCH"), s.workedOn(leader, starting, "PUT")
	t.Logf("the leader %s dies with %d nodes starting and %d processing under its claims", leader.Name, len(resumed),
		len(lost))
	leader.Kill9()
	boots.Lift()
	patches.Lift()
	leader.Start()
	for _, m := range waiting {
		fleet.Add(m.Hardware())
		fleet.Power(m.UUID, "power on")
	}

	reports := s.WaitEnd(endLimit, machines)
	var finished []openstack.Machine
	for _, m := range machines {
		r := reports[m.UUID]
		switch {
		case r.State == "finished":
			finished = append(finished, m)
		case !lost[m.UUID]:
			t.Errorf("%s ended in error, and was not processed by the peer that died: %s", m.Name, r.Reason())
		case !leader.named(r.Reason()):
			t.Errorf("%s ended in error and does not name the peer that died: %q", m.Name, r.Reason())
		}
	}
	checkInventory(t, ironic, finished)
	for _, m := range machines {
		if n := s.Tap.PowerCalls("rebooting")[m.UUID]; n != 1 && !(n == 2 && resumed[m.UUID]) {
			t.Errorf("%s was powered on %d times (start resumed: %v)", m.Name, n, resumed[m.UUID])
		}
	}
	t.Logf("%d of %d finished, the others lost with the peer that processed them", len(finished), len(machines))
	s.WaitVoters(3)
	s.WaitSame()
}

// workedOn returns the nodes for which a peer sent a call of that method.
func (s *SiteLab) workedOn(p *Peer, machines []openstack.Machine, method string) map[string]bool {
	nodes := make(map[string]bool)
	for _, c := range s.Tap.Calls(time.Time{}, method, among(machines, "")) {
		if c.Door == p.Name {
			node, _, _ := strings.Cut(strings.Split(c.Path, "/")[3], "?")
			nodes[node] = true
		}
	}
	return nodes
}
