//go:build e2e

package labtest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/internal/kubeclient"
	"github.com/trivet-ha/trivet/test/labtest/kubelab"
)

// kubeName is what the cluster is called in the peers' files.
const kubeName = "lab"

// kubeSafe are settings with which a bad day takes seconds. The kubelets of the lab
// renew every 2 s (kubeBusy).
const kubeSafe = `failover:
  mode: safe
  kubeconfigs: [lab=KUBECONFIG]
  fence_file: FENCE
  lease_age: 6s
  hold: 1s
  not_ready_after: 12s
  probe_interval: 500ms
  probe_timeout: 1s
  probe_misses: 2
  storm_cooldown: 1s
  node_rate: 60
  healthy_delay: 2s
  retries: 3
  retry_interval: 500ms
  timeout: 5s
`

// kubeBusy are five kube nodes that do not flap on a machine that is starved.
func kubeBusy() []string {
	return []string{
		"--nodes=5", "--node-monitor-grace-period=10s", "--node-monitor-period=1s", "--lease-duration=8s",
		"--status-period=1s",
		"--pod-start-delay=50ms", "--pod-stop-delay=50ms", "--attach-delay=50ms", "--detach-delay=50ms",
		"--kcm-arg=--attach-detach-reconcile-sync-period=5s",
	}
}

// kubeSite is three peers that look after a cluster of Kubernetes.
type kubeSite struct {
	*Lab
	kube  *kubelab.Cluster
	fence *kubelab.Fence
	audit *kubelab.Audit
	begun int64    // where the API server's record of this site begins
	gone  []string // kube nodes whose Node was deleted
}

// newKubeSite starts the peers, with these settings, as the user that the manifest
// makes. A cluster of peers before this one may have left its tokens: they are
// taken away, as an operator would who founds a cluster again.
func newKubeSite(t testing.TB, k *kubelab.Cluster, audit *kubelab.Audit, kubeconfig, settings,
	binary string) *kubeSite {
	t.Helper()
	k.Kubectl("annotate", "nodes", "--all", kubeclient.AnnotationToken+"-")
	s := &kubeSite{Lab: New(t), kube: k, fence: kubelab.NewFence(k), audit: audit, begun: audit.Size()}
	text := strings.NewReplacer("KUBECONFIG", kubeconfig, "FENCE", s.fence.File()).Replace(settings)
	s.furnish = func(p *Peer) {
		p.Binary = cmp.Or(binary, p.Binary)
		p.configure(text)
	}
	s.Trio("alpha", "bravo", "charlie")
	return s
}

// day runs a scenario as a subtest, and looks at what was done when it ends.
func (s *kubeSite) day(t *testing.T, name string, scenario func()) {
	s.within(t, name, func(*testing.T) {
		s.calm()
		scenario()
		s.verdict()
	})
}

// within runs a part as a subtest, which is the one that fails.
func (s *kubeSite) within(t *testing.T, name string, part func(*testing.T)) {
	t.Run(name, func(t *testing.T) {
		defer s.adopt(s.Lab.t)
		s.adopt(t)
		defer s.tell(t)
		part(t)
	})
}

// adopt makes another test the one that fails.
func (s *kubeSite) adopt(t testing.TB) {
	s.Lab.t, s.kube, s.fence = t, s.kube.For(t), s.fence.For(t)
	for _, p := range s.Peers {
		p.t = t
	}
}

// tell prints what was done, of a test that failed.
func (s *kubeSite) tell(t *testing.T) {
	if !t.Failed() {
		return
	}
	for _, m := range s.remediations() {
		t.Logf("remediation %v of %s: %s", m.ID, m.Node, m.State)
		for _, step := range m.Steps {
			t.Logf("  %s %s %s %s: %s", step.At, step.State, step.Peer, step.Device, step.Reason)
		}
	}
	for _, n := range s.list().Nodes {
		t.Logf("%s: Ready %s, Lease %d ms, silent %d, answers %d, would %s, why %q", n.Name, n.Ready, n.LeaseAgeMS, n.Silent,
			n.Answers, n.Would, n.Why)
	}
	for _, c := range s.fence.Calls(t) {
		t.Logf("%v %+v", c.At.Format(time.RFC3339Nano), c)
	}
	for _, d := range s.audit.Deeds(t, s.begun) {
		t.Logf("%v %+v", d.Began.Format(time.RFC3339Nano), d)
	}
}

// verdict fails if two kube nodes ever ran the same, or what was done was done in
// the wrong order.
func (s *kubeSite) verdict() {
	s.t.Helper()
	if v := s.kube.Violations(); len(v) != 0 {
		s.t.Errorf("violations: %v", v)
	}
	for _, fault := range kubelab.Faults(s.audit.Deeds(s.t, s.begun), s.fence.Calls(s.t), s.gone...) {
		s.t.Error(fault)
	}
}

// anyPeer is one that runs.
func (s *kubeSite) anyPeer() *Peer {
	s.t.Helper()
	running := s.Running()
	if len(running) == 0 {
		s.t.Fatal("no peer runs")
	}
	return running[len(running)-1]
}

// list is what 'trivet failover list' prints; empty while nobody leads.
func (s *kubeSite) list() (f admin.Failover) {
	_ = s.anyPeer().Call("GET", "/v1/failover", nil, &f) // who waits asks again
	return f
}

// node is what the leader thinks of a kube node.
func (s *kubeSite) node(name string) (admin.KubeNode, error) {
	f := s.list()
	if i := slices.IndexFunc(f.Nodes, func(n admin.KubeNode) bool { return n.Name == name }); i >= 0 {
		return f.Nodes[i], nil
	}
	return admin.KubeNode{}, fmt.Errorf("%s is not listed: %+v", name, f)
}

// remediations are those of all kube nodes, the newest first.
func (s *kubeSite) remediations() (all []admin.Remediation) {
	_ = s.anyPeer().Call("GET", "/v1/failover/remediations?stale=1", nil, &all) // who waits asks again
	return all
}

// newest is the newest remediation of a kube node that began after others.
func (s *kubeSite) newest(node string, after int) (m admin.Remediation, ok bool) {
	all := slices.DeleteFunc(s.remediations(), func(m admin.Remediation) bool { return m.Node != node })
	if len(all) <= after {
		return m, false
	}
	return all[0], true
}

// known counts the remediations of a kube node.
func (s *kubeSite) known(node string) int {
	return len(slices.DeleteFunc(s.remediations(), func(m admin.Remediation) bool { return m.Node != node }))
}

// passed reports whether a remediation has been in a state.
func passed(m admin.Remediation, state string) bool {
	return slices.ContainsFunc(m.Steps, func(step admin.RemediationStep) bool { return step.State == state })
}

// awaitStep waits until the remediation of a kube node that comes after those that
// are known has been in a state.
func (s *kubeSite) awaitStep(node string, known int, state string) (m admin.Remediation) {
	s.t.Helper()
	s.Eventually(kubelab.Limit, node+" is "+state, func() error {
		var ok bool
		if m, ok = s.newest(node, known); !ok {
			n, err := s.node(node)
			return cmp.Or(err, fmt.Errorf("nothing is done: %q", n.Why))
		}
		if !passed(m, state) {
			return fmt.Errorf("it is %s: %s", m.State, m.Reason)
		}
		return nil
	})
	return m
}

// mend takes away what an earlier scenario may have left.
func (s *kubeSite) mend() {
	s.t.Helper()
	for _, device := range kubelab.Devices {
		s.fence.Behave(device, kubelab.Obeys)
	}
	for name, machine := range s.kube.Nodes() {
		if machine.State != kubelab.On {
			s.kube.Power(name, kubelab.On)
		}
	}
	for _, p := range s.Peers {
		switch {
		case !p.running():
			p.Start()
		case p.aside:
			p.Cont()
		}
	}
}

// calm waits until nothing is wrong, and every kube node would be remediated if it
// died.
func (s *kubeSite) calm() {
	s.t.Helper()
	s.mend()
	s.Eventually(kubelab.Limit, "all kube nodes are well and looked after", func() error {
		f := s.list()
		if len(f.Nodes) < 5 {
			return fmt.Errorf("%d kube nodes are listed", len(f.Nodes))
		}
		for _, n := range f.Nodes {
			if n.Ready != "True" || n.Remediation != nil || 2*n.Answers <= n.Voters {
				return fmt.Errorf("%s: %+v", n.Name, n)
			}
		}
		marked := s.kube.Get(`{range .items[*]}{.metadata.name}{range .spec.taints[*]} {.key}{end}{"\n"}{end}`, "nodes")
		if strings.Contains(marked, failover.TaintCordon) || strings.Contains(marked, failover.TaintOutOfService) {
			return fmt.Errorf("marks are left:\n%s", marked)
		}
		for _, n := range f.Nodes {
			d, err := s.simulate(n.Name)
			if err != nil || !d.Would {
				return fmt.Errorf("%s would not be remediated: %q, %v", n.Name, d.Why, err)
			}
		}
		return nil
	})
}

// simulate asks what would be done about a kube node if it died now.
func (s *kubeSite) simulate(node string) (d admin.Simulation, err error) {
	err = s.anyPeer().Call("GET", "/v1/failover/simulation/"+kubeName+"/"+node, nil, &d)
	return d, err
}

// moved waits until pods of a workload run elsewhere than on a kube node.
func (s *kubeSite) moved(app, from string, pods int) {
	s.t.Helper()
	s.Eventually(kubelab.Limit, app+" runs elsewhere", func() error {
		where := s.kube.Where(app)
		for pod, node := range where {
			if node == from {
				return fmt.Errorf("%s is on %s", pod, node)
			}
		}
		if len(where) != pods {
			return fmt.Errorf("%d of %d pods run", len(where), pods)
		}
		return nil
	})
}

// recovered waits until the newest remediation of a kube node has ended well, with
// no mark left.
func (s *kubeSite) recovered(node string, known int) admin.Remediation {
	s.t.Helper()
	m := s.awaitStep(node, known, "recovered")
	s.Eventually(kubelab.Limit, node+" has no marks", func() error {
		if taints := s.kube.Get("{.spec.taints[*].key}", "node", node); strings.Contains(taints, "trivet") ||
			strings.Contains(taints, "out-of-service") {
			return errors.New(taints)
		}
		return nil
	})
	if n := s.known(node); n != known+1 {
		s.t.Errorf("%d remediations of %s, %d before", n, node, known)
	}
	for _, step := range m.Steps {
		s.t.Logf("%s %s %s %s %s", step.At, step.State, step.Peer, step.Device, step.Reason)
	}
	return m
}

// refusedLate waits until the API server has refused a deletion that came late.
func (s *kubeSite) refusedLate(from int64) {
	s.t.Helper()
	s.Eventually(kubelab.Limit, "the API server has refused the deletion", func() error {
		for _, d := range s.audit.Deeds(s.t, from) {
			if d.Verb == "delete" && (d.Code == 404 || d.Code == 409) {
				s.t.Logf("the API server said %d to the late deletion of %s", d.Code, d.Name)
				return nil
			}
		}
		return errors.New("it was not asked")
	})
}

// uids returns the UIDs of the pods of a workload, whatever they are.
func (s *kubeSite) uids(app string) string {
	s.t.Helper()
	return s.kube.Get("{.items[*].metadata.uid}", "pods", "-l", "app="+app)
}

// steps are the states of a remediation in their order, each once in a row.
func steps(m admin.Remediation) string {
	var all []string
	for _, step := range m.Steps {
		all = append(all, step.State)
	}
	return strings.Join(slices.Compact(all), " ")
}

// wholly is how a remediation goes that nothing disturbs.
const wholly = "intent cordoned fencing off tainted deleted detached recovered"
