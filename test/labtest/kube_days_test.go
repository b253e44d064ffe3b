//go:build e2e

package labtest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/kubelab"
	"github.com/trivet-ha/trivet/test/testwait"
)

// TestKubeDays has three peers look after a real Kubernetes with five kube nodes
// through its bad days. After each, no two machines ever ran the same pod or wrote
// the same volume, and the API server's own record holds the order: off, taint,
// delete.
func TestKubeDays(t *testing.T) {
	t.Parallel()
	audit, flags := kubelab.NewAudit(t)
	k := kubelab.Start(t, append(kubeBusy(), flags...)...)
	trusted := k.Trusted()
	k.StatefulSet("db", 3)
	t.Run("safe", func(t *testing.T) {
		s := newKubeSite(t, k.For(t), audit, trusted, kubeSafe, "")
		s.day(t, "power loss", s.powerLoss)
		s.day(t, "API server stands still", s.apiPaused)
		s.day(t, "devices hang and refuse", s.devicesFail)
		s.day(t, "a device lies", s.deviceLies)
		s.day(t, "back during fencing", s.backDuringFencing)
		if longDays() {
			s.day(t, "flap", s.flap)
			s.day(t, "partition", s.partition)
			s.day(t, "frozen", s.frozen)
			s.day(t, "two at once", s.twoAtOnce)
			s.day(t, "three of five", s.threeOfFive)
			s.day(t, "a verb is missing", s.verbMissing)
			s.day(t, "etcd stands still", s.etcdPaused)
			s.day(t, "another writes taints", s.otherWriter)
			s.day(t, "the Node is deleted", s.nodeDeleted)
		}
	})
	stops := sync.OnceValue(func() *Stoppable { return StoppableBinary(t) })
	t.Run("leader stopped", func(t *testing.T) { kubeLeaderDays(t, k.For(t), audit, trusted, stops()) })
	t.Run("compatible mode", func(t *testing.T) { kubeNooBaaDays(t, k.For(t), audit, trusted, stops()) })
}

// victim is the kube node of the first pod of a workload.
func (s *kubeSite) victim() (node string, known int) {
	s.t.Helper()
	node = s.kube.Where("db")["db-0"]
	if node == "" {
		s.t.Fatal("db-0 runs nowhere")
	}
	return node, s.known(node)
}

// powerLoss takes the power of a kube node, and gives it back when its work is
// elsewhere.
func (s *kubeSite) powerLoss() {
	node, known := s.victim()
	dead := time.Now()
	s.kube.Power(node, kubelab.Off)
	s.moved("db", node, 3)
	s.t.Logf("ready elsewhere %v after the power went", time.Since(dead).Round(10*time.Millisecond))
	s.awaitStep(node, known, "detached")
	s.kube.Power(node, kubelab.On)
	m := s.recovered(node, known)
	if steps(m) != wholly || m.Attempts != 1 {
		s.t.Errorf("%s, %d commands", steps(m), m.Attempts)
	}
	s.says(node)
}

// says looks for what people are told: the history, and Events on the Node.
func (s *kubeSite) says(node string) {
	s.t.Helper()
	p := s.anyPeer()
	if out := p.Must("failover", "history", node, p.On()); !strings.Contains(out, "recovered") {
		s.t.Errorf("the history says\n%s", out)
	}
	s.Eventually(kubelab.Limit, "Events tell what was done", func() error {
		told := s.kube.Get("{.items[*].reason}", "events", "-n", "default", "--field-selector=involvedObject.name="+node)
		for _, want := range []string{"FailoverBegun", "FailoverOff", "FailoverDeleted", "FailoverEnded"} {
			if !strings.Contains(told, want) {
				return fmt.Errorf("%s is missing of %s", want, told)
			}
		}
		return nil
	})
}

// apiPaused has the API server stand still for 30 s while all are well.
func (s *kubeSite) apiPaused() {
	const standstill = 30 * time.Second
	before := len(s.remediations())
	s.kube.Component("kube-apiserver", "pause")
	began := time.Now()
	s.saysWhy("the API server of lab is silent")
	s.throughout(standstill-time.Since(began), before)
	out := s.anyPeer().Must("failover", "list", s.anyPeer().On())
	if n := strings.Count(out, "the API server of lab is silent"); n < 5 {
		s.t.Errorf("'failover list' says it %d times:\n%s", n, out)
	}
	s.kube.Component("kube-apiserver", "resume")
	s.throughout(12*time.Second, before)
}

// saysWhy waits until a reason is given for every kube node.
func (s *kubeSite) saysWhy(reason string) {
	s.t.Helper()
	s.Eventually(kubelab.Limit, "the list says that "+reason, func() error {
		f := s.list()
		for _, n := range f.Nodes {
			if !strings.Contains(strings.Join(n.Why, "; "), reason) {
				return fmt.Errorf("of %s it says %q", n.Name, n.Why)
			}
		}
		if len(f.Nodes) == 0 {
			return errors.New("it is empty")
		}
		return nil
	})
}

// throughout looks for a while that nothing is begun and no command given.
func (s *kubeSite) throughout(d time.Duration, remediations int) {
	s.t.Helper()
	calls := len(s.fence.Calls(s.t))
	testwait.Every(s.t, 500*time.Millisecond, d, func() {
		if n := len(s.remediations()); n > remediations {
			s.t.Fatalf("%d remediations, before there were %d", n, remediations)
		}
		if now := s.fence.Calls(s.t); len(now) > calls {
			s.t.Fatalf("a device was told %+v", now[calls:])
		}
	})
}

// devicesFail has the first device hang and the second lack the action: the third
// does it.
func (s *kubeSite) devicesFail() {
	node, known := s.victim()
	s.fence.Behave("first", kubelab.Hangs)
	s.fence.Behave("second", kubelab.Lacks)
	s.kube.Power(node, kubelab.Freeze)
	s.moved("db", node, 3)
	m := s.awaitStep(node, known, "off")
	s.kube.Power(node, kubelab.On)
	s.recovered(node, known)
	told := fmt.Sprintf("%+v", m.Steps)
	for _, want := range []string{"no answer within 8s", "not supported"} {
		if !strings.Contains(told, want) {
			s.t.Errorf("no step says %q: %s", want, told)
		}
	}
	if m.Device != "third" || m.Attempts != 3 {
		s.t.Errorf("device %s after %d commands", m.Device, m.Attempts)
	}
}

// deviceLies has every device say off of a machine that is on: its kubelet
// contradicts them, nothing is deleted, and an operator is called, without whom the devices
// are not used again.
func (s *kubeSite) deviceLies() {
	node, known := s.victim()
	pods := s.uids("db")
	for _, device := range kubelab.Devices {
		s.fence.Behave(device, kubelab.Lies)
	}
	s.kube.Power(node, kubelab.NotReady)
	m := s.awaitStep(node, known, "stuck")
	if m.WasOff || !strings.Contains(m.Reason, "contradiction: device first says off, and its kubelet answers") {
		s.t.Errorf("it is stuck because: %s", m.Reason)
	}
	s.alarmed(node)
	calls := len(s.fence.Calls(s.t))
	s.throughout(5*time.Second, len(s.remediations()))
	if now := s.uids("db"); now != pods {
		s.t.Errorf("pods %s, before %s", now, pods)
	}
	s.kube.Power(node, kubelab.On)
	m = s.awaitStep(node, known, "cancelled")
	if now := s.fence.Calls(s.t); len(now) != calls || passed(m, "off") || s.uids("db") != pods {
		s.t.Errorf("%s; the devices were told %+v", steps(m), now)
	}
	d, err := s.simulate(node)
	if err != nil || d.Would || !strings.Contains(strings.Join(d.Why, " "), "its device was found out") {
		s.t.Errorf("its device may be used again before an operator says so: %+v, %v", d, err)
	}
	s.mend()
	p := s.anyPeer()
	p.Must("failover", "test-fence", node, p.On())
	p.Must("failover", "release", node, "--to", "fencing", p.On())
}

// alarmed waits until everybody who may look is told of one that is stuck.
func (s *kubeSite) alarmed(node string) {
	s.t.Helper()
	s.Eventually(kubelab.Limit, "an alert tells of "+node, func() error {
		out := s.anyPeer().Trivet("status", s.anyPeer().On()).Out // degraded is exit code 2
		if !strings.Contains(out, node+" is stuck") {
			return fmt.Errorf("status says\n%s", out)
		}
		told := s.kube.Get("{.items[*].reason}", "events", "-n", "default", "--field-selector=involvedObject.name="+node)
		if !strings.Contains(told, "FailoverStuck") {
			return fmt.Errorf("no Event tells it: %s", told)
		}
		return nil
	})
}

// backDuringFencing mends a kube node while its first device hangs: no other is
// asked, and its work stays.
func (s *kubeSite) backDuringFencing() {
	node, known := s.victim()
	pods, calls := s.uids("db"), len(s.fence.Calls(s.t))
	s.fence.Behave("first", kubelab.Hangs)
	s.kube.Power(node, kubelab.Freeze)
	s.awaitStep(node, known, "fencing")
	s.kube.Power(node, kubelab.On)
	m := s.awaitStep(node, known, "cancelled")
	if told := s.fence.Calls(s.t)[calls:]; passed(m, "off") || len(told) != 1 || told[0].Device != "first" {
		s.t.Errorf("%s; the devices were told %+v", steps(m), told)
	}
	if now := s.uids("db"); now != pods {
		s.t.Errorf("pods %s, before %s", now, pods)
	}
}

// partition cuts a kube node off from its API server. It lives, its kubelet
// answers, and its pods run: only after not_ready_after its power is taken, and
// then its work moves.
func (s *kubeSite) partition() {
	node, known := s.victim()
	cut := time.Now()
	s.kube.Power(node, kubelab.Partition)
	s.kube.Await("Kubernetes misses it", "Unknown", `{.status.conditions[?(@.type=="Ready")].status}`, "node", node)
	missed := time.Now()
	s.throughout(8*time.Second, len(s.remediations()))
	m := s.awaitStep(node, known, "off")
	s.t.Logf("missed after %v, off %v after that", missed.Sub(cut).Round(time.Second),
		time.Since(missed).Round(time.Second))
	if !strings.Contains(m.Steps[0].Reason, "Ready is Unknown for") {
		s.t.Errorf("it was begun because: %s", m.Steps[0].Reason)
	}
	s.moved("db", node, 3)
	if state := s.kube.Nodes()[node].State; state != kubelab.Off {
		s.t.Errorf("it is %s", state)
	}
	s.kube.Power(node, kubelab.On)
	s.recovered(node, known)
}

// frozen has a kubelet and its host stand still while the pods run on.
func (s *kubeSite) frozen() {
	node, known := s.victim()
	s.kube.Power(node, kubelab.Freeze)
	s.moved("db", node, 3)
	s.kube.Power(node, kubelab.On)
	s.recovered(node, known)
}

// flap has a kube node fall silent for less than it takes.
func (s *kubeSite) flap() {
	node, _ := s.victim()
	before := len(s.remediations())
	s.kube.Power(node, kubelab.Freeze)
	s.throughout(4*time.Second, before)
	s.kube.Power(node, kubelab.On)
	s.throughout(12*time.Second, before)
}

// others are up to n kube nodes other than one, by name.
func (s *kubeSite) others(node string, n int) (names []string) {
	for _, k := range s.list().Nodes {
		if k.Name != node && len(names) < n {
			names = append(names, k.Name)
		}
	}
	return names
}

// twoAtOnce takes the power of two kube nodes, as many as may be unhealthy.
func (s *kubeSite) twoAtOnce() {
	first, known := s.victim()
	second := s.others(first, 1)[0]
	known2 := s.known(second)
	s.kube.Power(first, kubelab.Off)
	s.kube.Power(second, kubelab.Off)
	s.moved("db", first, 3)
	s.moved("db", second, 3)
	s.awaitStep(first, known, "detached")
	s.awaitStep(second, known2, "detached")
	s.kube.Power(first, kubelab.On)
	s.kube.Power(second, kubelab.On)
	s.recovered(first, known)
	s.recovered(second, known2)
}

// threeOfFive takes the power of more than may be unhealthy: nothing is done, and
// it is said why.
func (s *kubeSite) threeOfFive() {
	first, _ := s.victim()
	dead := append(s.others(first, 2), first)
	before := len(s.remediations())
	for _, node := range dead {
		s.kube.Power(node, kubelab.Off)
	}
	s.Eventually(kubelab.Limit, "the list says why not", func() error {
		for _, node := range dead {
			n, err := s.node(node)
			if err != nil {
				return err
			}
			if !strings.Contains(strings.Join(n.Why, "; "), "3 of 5 kube nodes are unhealthy together") || !n.HeldForDead {
				return fmt.Errorf("of %s it says %q", node, n.Why)
			}
		}
		return nil
	})
	s.throughout(15*time.Second, before)
	for _, node := range dead {
		s.kube.Power(node, kubelab.On)
	}
	s.throughout(10*time.Second, before)
}

// verbMissing takes one right away in the middle: it is stuck, names the verb, and
// goes on when an operator has given the right back.
func (s *kubeSite) verbMissing() {
	give := s.keepPods()
	node, known := s.victim()
	s.kube.Power(node, kubelab.Off)
	m := s.awaitStep(node, known, "stuck")
	if !strings.Contains(m.Reason, "let us delete pods") {
		s.t.Errorf("it is stuck because: %s", m.Reason)
	}
	give()
	p := s.anyPeer()
	p.Must("failover", "release", node, "--to", "fencing", p.On())
	s.moved("db", node, 3)
	s.awaitStep(node, known, "detached")
	s.kube.Power(node, kubelab.On)
	s.recovered(node, known)
}

// etcdPaused has etcd stand still, and then be slow while a kube node dies.
func (s *kubeSite) etcdPaused() {
	before := len(s.remediations())
	s.kube.Component("etcd", "pause")
	s.saysWhy("the API server of lab is silent")
	s.throughout(10*time.Second, before)
	s.kube.Component("etcd", "resume")
	s.throughout(15*time.Second, before)
	s.calm()

	node, known := s.victim()
	calls := len(s.fence.Calls(s.t))
	end := s.slowly("etcd", 400*time.Millisecond)
	s.kube.Power(node, kubelab.Off)
	s.moved("db", node, 3)
	s.awaitStep(node, known, "detached")
	end()
	for _, c := range s.fence.Calls(s.t)[calls:] {
		if c.Machine != node {
			s.t.Errorf("a device was told %+v", c)
		}
	}
	s.kube.Power(node, kubelab.On)
	s.recovered(node, known)
}

// slowly has a component stand still half of the time until end is called.
func (s *kubeSite) slowly(component string, half time.Duration) (end func()) {
	s.t.Helper()
	var failed error
	paused := false
	ended := repeated(s.t, half, func() {
		if failed == nil {
			paused = !paused
			failed = s.kube.TryComponent(component, map[bool]string{true: "pause", false: "resume"}[paused])
		}
	})
	end = sync.OnceFunc(func() {
		ended()
		if failed != nil {
			s.t.Error(failed)
		}
		s.kube.Component(component, "resume")
	})
	s.t.Cleanup(end)
	return end
}

// otherWriter has somebody else write the taints and annotations of the Node all
// the time: theirs stay, and ours come and go all the same.
func (s *kubeSite) otherWriter() {
	node, known := s.victim()
	writes := 0
	end := repeated(s.t, time.Millisecond, func() {
		_, err := s.kube.Try("", "taint", "node", node, "--overwrite",
			fmt.Sprintf("example.org/theirs=%d:PreferNoSchedule", writes))
		if err == nil {
			writes++
		}
	})
	s.kube.Power(node, kubelab.Off)
	s.moved("db", node, 3)
	s.awaitStep(node, known, "detached")
	s.kube.Power(node, kubelab.On)
	s.awaitStep(node, known, "recovered")
	end()
	if got := s.kube.Get("{.spec.taints[*].key}", "node", node); got != "example.org/theirs" || writes == 0 {
		s.t.Errorf("after %d writes its taints are %s", writes, got)
	}
	s.t.Logf("%d writes of somebody else's", writes)
	s.kube.Kubectl("taint", "node", node, "example.org/theirs-")
}

// nodeDeleted deletes the Node of a machine that was switched off. Its work moves,
// and another Node of its name is not touched.
func (s *kubeSite) nodeDeleted() {
	node, known := s.victim()
	s.kube.Power(node, kubelab.Off)
	s.awaitStep(node, known, "off")
	s.gone = append(s.gone, node)
	s.kube.Kubectl("delete", "node", node)
	s.moved("db", node, 3)
	m := s.awaitStep(node, known, "recovered")
	if !strings.Contains(m.Reason, "the Node was deleted") {
		s.t.Errorf("it ended because: %s", m.Reason)
	}
	s.kube.Power(node, kubelab.On)
	s.Eventually(kubelab.Limit, "it has a Node again", func() error {
		n, err := s.node(node)
		if err == nil && (n.UID == m.UID || n.Ready != "True") {
			err = fmt.Errorf("it is %+v", n)
		}
		return err
	})
	s.throughout(5*time.Second, len(s.remediations()))
}
