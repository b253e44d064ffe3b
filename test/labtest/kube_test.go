//go:build e2e

package labtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/failover/kube"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/internal/kubeclient"
	"github.com/trivet-ha/trivet/test/labtest/kubelab"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// kubeSeen is what a Watch told, the newest of each.
type kubeSeen struct {
	mu       sync.Mutex
	nodes    map[string]failover.Node
	gone     []string // UIDs
	renewals map[string]int
	synced   bool
}

func (s *kubeSeen) Node(n failover.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[n.Name] = n
}

func (s *kubeSeen) NodeGone(name, uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes[name].UID == uid {
		delete(s.nodes, name)
	}
	s.gone = append(s.gone, uid)
}

func (s *kubeSeen) Renewed(node string, _ failover.Renewal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewals[node]++
}

// node returns a Node as it was last told, and how often its Lease was renewed.
func (s *kubeSeen) node(name string) (failover.Node, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[name], s.renewals[name]
}

func (s *kubeSeen) isGone(uid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.gone, uid)
}

// openKube opens a cluster.
func openKube(t testing.TB, kubeconfig string) *kube.Cluster {
	t.Helper()
	c, err := kube.Open(kube.Options{Name: "lab", Kubeconfig: kubeconfig, Peer: "alpha", Wall: time.Now,
		Logger: slog.New(slog.DiscardHandler)})
	testenv.Must(t, err)
	t.Cleanup(c.Close)
	return c
}

// watchKube watches a cluster until the test ends.
func watchKube(t testing.TB, c *kube.Cluster) *kubeSeen {
	t.Helper()
	s := &kubeSeen{nodes: map[string]failover.Node{}, renewals: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- c.Watch(ctx, s, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.synced = true
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := testwait.Receive(t, done, "the watch ends"); err != nil {
			t.Error(err)
		}
	})
	return s
}

// awaitSynced waits until everything was told that there is.
func (s *kubeSeen) awaitSynced(t testing.TB) {
	t.Helper()
	eventually(t, kubelab.Limit, "all was told", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.synced {
			return errors.New("not synced")
		}
		return nil
	})
}

// awaitReady waits until a Node was told with this readiness.
func (s *kubeSeen) awaitReady(t testing.TB, name string, ready bool) failover.Node {
	t.Helper()
	var n failover.Node
	eventually(t, kubelab.Limit, fmt.Sprintf("%s is told, ready %t", name, ready), func() error {
		if n, _ = s.node(name); n.UID == "" || (n.Ready == kubestate.ReadyTrue) != ready {
			return fmt.Errorf("it is told as %q %v", n.UID, n.Ready)
		}
		return nil
	})
	return n
}

// awaitRenewals waits until a Lease is seen to be renewed twice more.
func (s *kubeSeen) awaitRenewals(t testing.TB, name string) {
	t.Helper()
	_, before := s.node(name)
	eventually(t, kubelab.Limit, name+" renews its Lease", func() error {
		_, now := s.node(name)
		return atLeast(int64(now), int64(before+2))
	})
}

func awaitAnswers(t testing.TB, c *kube.Cluster) {
	t.Helper()
	eventually(t, kubelab.Limit, "the API server answers", func() error { return c.Answers(t.Context()) })
}

func awaitSilence(t testing.TB, c *kube.Cluster) {
	t.Helper()
	eventually(t, kubelab.Limit, "the API server is silent", func() error {
		if c.Answers(t.Context()) == nil {
			return errors.New("it answers")
		}
		return nil
	})
}

// TestKube drives the adapter against a real API server, as the user that the
// manifest makes.
func TestKube(t *testing.T) {
	t.Parallel()
	k := kubelab.Start(t, "--fast", "--node-monitor-grace-period=10s") // with less a machine that is starved flaps
	trusted := k.Trusted()
	t.Run("watch", func(t *testing.T) { kubeWatch(t, k.For(t), trusted) })
	t.Run("marks", func(t *testing.T) { kubeMarks(t, k.For(t), trusted) })
	t.Run("pods", func(t *testing.T) { kubePods(t, k.For(t), trusted) })
	t.Run("API server stands still", func(t *testing.T) { kubePaused(t, k.For(t), trusted) })
	t.Run("API server dies", func(t *testing.T) { kubeKilled(t, k.For(t), trusted) })
	t.Run("expired", func(t *testing.T) { kubeExpired(t, k.For(t), trusted) })
	t.Run("rights", func(t *testing.T) { kubeRights(t, k.For(t), trusted) })
}

func kubeWatch(t *testing.T, k *kubelab.Cluster, kubeconfig string) {
	c := openKube(t, kubeconfig)
	seen := watchKube(t, c)
	seen.awaitSynced(t)
	machines := k.Nodes()
	for name, machine := range machines {
		n := seen.awaitReady(t, name, true)
		if n.Kubelet != machine.Address || n.BootID == "" {
			t.Errorf("%s: kubelet %s, not %s; boot ID %q", name, n.Kubelet, machine.Address, n.BootID)
		}
		seen.awaitRenewals(t, name)
	}
	if err := c.Answers(t.Context()); err != nil {
		t.Error(err)
	}
	before, _ := seen.node("node-2")
	k.Power("node-2", kubelab.Off)
	seen.awaitReady(t, "node-2", false)
	_, renewals := seen.node("node-2")
	seen.awaitRenewals(t, "node-1")
	if _, now := seen.node("node-2"); now != renewals {
		t.Errorf("a dead kubelet renewed its Lease %d times", now-renewals)
	}
	k.Power("node-2", kubelab.On)
	if after := seen.awaitReady(t, "node-2", true); after.UID != before.UID || after.BootID == before.BootID {
		t.Errorf("UID %s, then %s; boot ID %s, then %s", before.UID, after.UID, before.BootID, after.BootID)
	}
}

func kubeMarks(t *testing.T, k *kubelab.Cluster, kubeconfig string) {
	c := openKube(t, kubeconfig)
	ctx := t.Context()
	read := func() failover.Node {
		t.Helper()
		n, err := c.Node(ctx, "node-1")
		testenv.Must(t, err)
		return n
	}
	// Its status changes now and then: what is to be refused for another reason is
	// tried until it was not that.
	mark := func(change failover.Change) (n failover.Node, err error) {
		t.Helper()
		eventually(t, kubelab.Limit, "no status came between", func() error {
			if n, err = c.Mark(ctx, read(), change); errors.Is(err, failover.ErrConflict) &&
				!strings.Contains(err.Error(), "greater token") {
				return err
			}
			return nil
		})
		return n, err
	}
	cordon := failover.Taint{Key: failover.TaintCordon, Value: "20", Effect: "NoSchedule"}
	outside := failover.Taint{Key: failover.TaintOutOfService, Value: failover.OutOfServiceValue, Effect: "NoExecute"}
	stale := read()
	k.Kubectl("taint", "node", "node-1", "example.org/theirs=x:NoSchedule")
	if _, err := c.Mark(ctx, stale, failover.Change{Add: []failover.Taint{cordon}, Token: 20}); !errors.Is(err,
		failover.ErrConflict) {
		t.Errorf("a stale resourceVersion: %v", err)
	}
	other := stale
	other.UID = "00000000-0000-0000-0000-000000000000"
	if _, err := c.Mark(ctx, other, failover.Change{Token: 20}); !errors.Is(err, failover.ErrGone) {
		t.Errorf("another UID: %v", err)
	}
	n, err := mark(failover.Change{Add: []failover.Taint{cordon, outside}, Token: 20})
	if err != nil || len(n.Taints) != 3 || n.Annotations[kubeclient.AnnotationToken] != "20" {
		t.Errorf("%+v %v", n, err)
	}
	if _, err := mark(failover.Change{Remove: []failover.Taint{cordon}, Token: 19}); !errors.Is(err,
		failover.ErrConflict) || !strings.Contains(err.Error(), "greater token, 20") {
		t.Errorf("a lower token: %v", err)
	}
	theirs := failover.Taint{Key: "example.org/theirs", Value: "y", Effect: "NoSchedule"}
	n, err = mark(failover.Change{Remove: []failover.Taint{cordon, outside, theirs}, Token: 21})
	if err != nil || len(n.Taints) != 1 || n.Taints[0].Value != "x" || n.Annotations[kubeclient.AnnotationToken] != "21" {
		t.Errorf("%+v %v", n, err)
	}
	k.Kubectl("taint", "node", "node-1", "example.org/theirs-")
	if err := c.Tell(ctx, n, "Warning", "TrivetTried", strings.Repeat("é", 2000)); err != nil {
		t.Error(err)
	}
	if got := k.Get("{.items[*].involvedObject.uid}", "events", "-n", "default",
		"--field-selector=reason=TrivetTried"); got != n.UID {
		t.Errorf("the Event is about %q", got)
	}
	if _, err := c.Node(ctx, "node-9"); !errors.Is(err, failover.ErrGone) {
		t.Error(err)
	}
}

func kubePods(t *testing.T, k *kubelab.Cluster, kubeconfig string) {
	c := openKube(t, kubeconfig)
	ctx := t.Context()
	k.StatefulSet("db", 3)
	k.Deployment("web", 6)
	k.Apply(`
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: db}
spec: {minAvailable: 3, selector: {matchLabels: {app: db}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}`)
	total := 0
	for name := range k.Nodes() {
		pods, err := c.Pods(ctx, name)
		testenv.Must(t, err)
		for _, p := range pods {
			if p.Node != name {
				t.Errorf("%s is on %s", p.Name, p.Node)
			}
		}
		total += len(pods)
	}
	if total != 9 {
		t.Errorf("%d pods", total)
	}
	at := k.Where("db")["db-0"]
	var pods []failover.Pod
	eventually(t, kubelab.Limit, "the budgets are counted", func() error {
		var err error
		if pods, err = c.Pods(ctx, at); err != nil {
			return err
		}
		names, err := c.Disrupted(ctx, pods, false)
		if err == nil && !slices.Equal(names, []string{"default/db"}) {
			err = fmt.Errorf("%v allow nothing", names)
		}
		return err
	})
	pod := pods[slices.IndexFunc(pods, func(p failover.Pod) bool { return p.Name == "db-0" })]
	k.Power(at, kubelab.Off)
	left, err := c.Attachments(ctx, at)
	if err != nil || len(left) == 0 {
		t.Errorf("attachments %v, %v", left, err)
	}
	k.Kubectl("annotate", "pod", "db-0", "changed=yes")
	if err := c.DeletePod(ctx, pod); !errors.Is(err, failover.ErrConflict) {
		t.Errorf("a stale resourceVersion: %v", err)
	}
	other := pod
	other.UID, other.ResourceVersion = "00000000-0000-0000-0000-000000000000", ""
	if err := c.DeletePod(ctx, other); !errors.Is(err, failover.ErrGone) {
		t.Errorf("another UID: %v", err)
	}
	eventually(t, kubelab.Limit, "the pod is deleted as it is", func() error {
		return c.DeletePod(ctx, newest(t, c, at, "db-0"))
	})
	if err := c.DeletePod(ctx, pod); !errors.Is(err, failover.ErrGone) {
		t.Errorf("deleted again: %v", err)
	}
	k.Power(at, kubelab.On)
	if v := k.Violations(); len(v) != 0 {
		t.Errorf("violations: %v", v)
	}
}

// newest reads a pod of a Node.
func newest(t *testing.T, c *kube.Cluster, node, name string) failover.Pod {
	t.Helper()
	pods, err := c.Pods(t.Context(), node)
	testenv.Must(t, err)
	i := slices.IndexFunc(pods, func(p failover.Pod) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("%s is not on %s", name, node)
	}
	return pods[i]
}

func kubePaused(t *testing.T, k *kubelab.Cluster, kubeconfig string) {
	c := openKube(t, kubeconfig)
	seen := watchKube(t, c)
	seen.awaitSynced(t)
	k.Component("kube-apiserver", "pause")
	began := time.Now()
	if err := c.Answers(t.Context()); err == nil || !strings.Contains(err.Error(), "no answer within 2s") {
		t.Error(err)
	}
	testenv.Took(t, "labtest.kube_no_answer", time.Since(began), 5*time.Second)
	if _, err := c.Node(t.Context(), "node-1"); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	k.Component("kube-apiserver", "resume")
	awaitAnswers(t, c)
	seen.awaitRenewals(t, "node-1")
}

func kubeKilled(t *testing.T, k *kubelab.Cluster, kubeconfig string) {
	c := openKube(t, kubeconfig)
	seen := watchKube(t, c)
	seen.awaitSynced(t)
	seen.awaitReady(t, "node-3", true)
	k.Component("kube-apiserver", "kill")
	awaitSilence(t, c)
	k.Power("node-3", kubelab.Off)
	k.Component("kube-apiserver", "start")
	awaitAnswers(t, c)
	seen.awaitReady(t, "node-3", false)
	seen.awaitRenewals(t, "node-1")
	k.Power("node-3", kubelab.On)
	seen.awaitReady(t, "node-3", true)
}

// kubeExpired cuts the way to the API server, lets a Node go meanwhile, and starts
// an API server that does not know any more what happened in between: 410 Gone.
func kubeExpired(t *testing.T, k *kubelab.Cluster, kubeconfig string) {
	way, its := k.Way(kubeconfig)
	c := openKube(t, its)
	seen := watchKube(t, c)
	seen.awaitSynced(t)
	before, _ := seen.node("node-3")
	way.Cut()
	awaitSilence(t, c)
	k.Power("node-3", kubelab.Partition) // or it would make its Node again at once
	k.Kubectl("delete", "node", "node-3")
	k.Component("kube-apiserver", "kill")
	k.Component("kube-apiserver", "start")
	direct := openKube(t, kubeconfig)
	awaitAnswers(t, direct)
	if seen.isGone(before.UID) {
		t.Fatal("the cut does not cut")
	}
	way.Mend()
	awaitAnswers(t, c)
	eventually(t, kubelab.Limit, "the Node is told to be gone", func() error {
		if !seen.isGone(before.UID) {
			return errors.New("it is not")
		}
		return nil
	})
	seen.awaitRenewals(t, "node-1")
	k.Power("node-3", kubelab.On)
	if after := seen.awaitReady(t, "node-3", true); after.UID == before.UID {
		t.Error("the new Node has the old one's UID")
	}
}

// TestControlPlaneIsBuilt builds kubelab, ten minutes on a fresh machine, in a run of its
// own, so that the tests of failover begin with one that is there.
func TestControlPlaneIsBuilt(t *testing.T) { kubelab.Build(t) }
