//go:build e2e

package labtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/kubelab"
)

// kubeLeader are three peers that can be stopped between any two steps.
type kubeLeader struct {
	*kubeSite
	stops *Stoppable
}

// kubeLeaderDays kills the leader at each step of a remediation, and stops it there
// and lets it go on when another has finished: it is completed, once in effect.
func kubeLeaderDays(t *testing.T, k *kubelab.Cluster, audit *kubelab.Audit, trusted string, stops *Stoppable) {
	s := kubeLeader{newKubeSite(t, k, audit, trusted, kubeSafe, stops.Binary), stops}
	places := []string{afterStep + "intent", afterStep + "cordoned", afterStep + "fencing", beforeOff, afterStep + "off",
		afterStep + "tainted", afterStep + "deleted", afterStep + "detached"}
	killed, late := places, append([]string{beforeMark, beforeDelete}, places...)
	if !longDays() {
		killed, late = []string{beforeOff}, []string{beforeDelete}
	}
	for _, place := range killed {
		s.day(t, "killed at "+place, func() { s.killed(place) })
	}
	for _, place := range late {
		s.day(t, "late at "+place, func() { s.late(place) })
	}
	s.day(t, "powered on before the deletes", s.poweredOn)
	if longDays() {
		s.day(t, "late with the taint", s.lateTaint)
		s.day(t, "the clock is turned back", s.clockBack)
	}
}

// stopped takes the power of a kube node and has whoever leads stop itself at a
// place, with its wall clock turned back from then on or not.
func (s kubeLeader) stopped(place, clock string) (leader *Peer, node string, known int, from int64) {
	s.t.Helper()
	node, known = s.victim()
	from = s.audit.Size()
	leader = s.stops.stopLeader(s.Lab, place, clock, kubelab.Limit, func() { s.kube.Power(node, kubelab.Off) })
	return leader, node, known, from
}

// finish waits until the work of a kube node that is off is elsewhere and the kube
// node, switched on again, is well.
func (s kubeLeader) finish(node string, known int, from int64) {
	s.t.Helper()
	s.moved("db", node, 3)
	s.awaitStep(node, known, "detached")
	s.kube.Power(node, kubelab.On)
	if m := s.recovered(node, known); steps(m) != wholly {
		s.t.Errorf("%s: %+v", steps(m), m.Steps)
	}
	s.onceInEffect(node, from)
}

// onceInEffect fails if a kube node was not tainted and untainted once.
func (s kubeLeader) onceInEffect(node string, from int64) {
	s.t.Helper()
	tainted, untainted, out := 0, 0, false
	for _, d := range s.audit.Deeds(s.t, from) {
		if d.Kind != "nodes" || d.Name != node || d.Code >= 300 || d.Out == out {
			continue
		}
		if out = d.Out; out {
			tainted++
		} else {
			untainted++
		}
	}
	if tainted != 1 || untainted != 1 {
		s.t.Errorf("%s was tainted %d times and untainted %d times", node, tainted, untainted)
	}
}

// killed has another leader go on where one was killed.
func (s kubeLeader) killed(place string) {
	leader, node, known, from := s.stopped(place, "")
	leader.Kill9()
	gone := time.Now()
	s.finish(node, known, from)
	s.t.Logf("completed %v after the leader was killed", time.Since(gone).Round(100*time.Millisecond))
	leader.Start()
	s.WaitVoters(3)
}

// late has another leader finish, and the first go on after that as if nothing had
// happened.
func (s kubeLeader) late(place string) {
	leader, node, known, from := s.stopped(place, "")
	s.finish(node, known, from)
	pods := s.uids("db")
	s.goesOn(leader, place)
	if now := s.uids("db"); now != pods {
		s.t.Errorf("pods %s, before %s", now, pods)
	}
}

// goesOn lets a leader go on that was stopped at a place, and wants it to change nothing.
func (s kubeLeader) goesOn(leader *Peer, place string) {
	s.t.Helper()
	late := s.audit.Size()
	leader.Cont()
	s.WaitVoters(3)
	s.WaitSame()
	if place == beforeDelete {
		s.refusedLate(late)
	}
	s.throughout(5*time.Second, len(s.remediations()))
	for _, d := range s.audit.Deeds(s.t, late) {
		if d.Code < 300 {
			s.t.Errorf("it went on: %+v", d)
		}
	}
}

// lateTaint stops a leader right before it taints a Node out of service, and lets it
// go on when the Node has recovered.
func (s kubeLeader) lateTaint() {
	leader, node, known, from := s.stopped(afterStep+"off", "")
	leader = s.stops.stopLeader(s.Lab, beforeMark, "", kubelab.Limit, leader.Cont)
	s.finish(node, known, from)
	s.goesOn(leader, beforeMark)
}

// poweredOn has somebody switch the machine on after its power-off was logged and
// before anything was deleted: the leader stands still meanwhile.
func (s kubeLeader) poweredOn() {
	leader, node, known, _ := s.stopped(afterStep+"off", "")
	s.kube.Power(node, kubelab.On)
	leader.Cont()
	s.Eventually(kubelab.Limit, "it has ended", func() error {
		m, _ := s.newest(node, known)
		if m.State == "detached" && s.kube.Nodes()[node].State == kubelab.Off {
			s.kube.Power(node, kubelab.On) // its power was taken a second time, as is right
		}
		if m.State != "recovered" {
			return fmt.Errorf("it is %s: %s", m.State, m.Reason)
		}
		return nil
	})
	m := s.recovered(node, known)
	s.t.Log(strings.ReplaceAll(steps(m), " ", ", "))
	s.WaitVoters(3)
}

// clockBack turns the leader's wall clock back by hours in the middle.
func (s kubeLeader) clockBack() {
	leader, node, known, from := s.stopped(afterStep+"fencing", "back")
	leader.Cont()
	s.finish(node, known, from)
	leader.Stop() // with it goes the clock that was turned back
	leader.Start()
	s.WaitVoters(3)
}
