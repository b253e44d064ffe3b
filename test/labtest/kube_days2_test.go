//go:build e2e

package labtest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/kubelab"
)

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
