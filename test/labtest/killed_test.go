//go:build e2e

package labtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/wiretap"
)

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
