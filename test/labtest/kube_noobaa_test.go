//go:build e2e

package labtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/kubelab"
	"github.com/trivet-ha/trivet/test/testwait"
)

// kubeNooBaa are the settings of the compatible mode. Its node filter leaves out the
// kube nodes with the label spare.
const kubeNooBaa = `failover:
  mode: noobaa
  kubeconfigs: [lab=KUBECONFIG]
  noobaa_namespace: storage
  node_selector: "!spare"
  probe_interval: 500ms
  probe_timeout: 1s
  retries: 3
  retry_interval: 500ms
  timeout: 5s
`

// nooBaaLab are pods on kube nodes of their own choice, and three peers that do what
// NooBaa's own controller does.
type nooBaaLab struct {
	*kubeSite
	stops *Stoppable
}

// kubeNooBaaDays holds the compatible mode against what NooBaa's own controller does,
// line by line. Every kube node has one pod of each kind.
func kubeNooBaaDays(t *testing.T, k *kubelab.Cluster, audit *kubelab.Audit, trusted string, stops *Stoppable) {
	for _, name := range []string{"storage", "other"} {
		k.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + name + "}}")
	}
	n := &nooBaaLab{kubeSite: newKubeSite(t, k, audit, trusted, kubeNooBaa, stops.Binary), stops: stops}
	n.line(t, "Ready to Unknown acts; the database's pod, another label, another namespace do not count",
		func() { n.edge("node-1", kubelab.Off, "Unknown") })
	n.line(t, "Ready to False acts", func() { n.edge("node-2", kubelab.NotReady, "False") })
	n.line(t, "not Ready to not Ready does not", n.noEdge)
	n.line(t, "a Node made as not Ready does not, the scan at the start does", n.scan)
	n.line(t, "a Node that is deleted does not", n.deleted)
	n.line(t, "a Node that is not selected does not", n.unselected)
	n.line(t, "a deletion that fails is tried again, one that was done is no error", n.again)
	n.line(t, "three of five at once", n.threeAtOnce)
	n.line(t, "the leader changes in the middle", n.changed)
}

// line runs one of the list.
func (n *nooBaaLab) line(t *testing.T, name string, scenario func()) {
	n.within(t, name, func(t *testing.T) {
		n.healed()
		scenario()
		if calls := n.fence.Calls(t); len(calls) > 0 {
			t.Errorf("a device was told %+v", calls)
		}
	})
}

// healed makes all kube nodes well, and the pods anew.
func (n *nooBaaLab) healed() {
	n.t.Helper()
	for name := range n.kube.Nodes() {
		n.kube.Power(name, kubelab.On)
	}
	n.kube.Kubectl("delete", "pods", "--all", "-n", "storage", "--force", "--grace-period=0")
	n.kube.Kubectl("delete", "pods", "--all", "-n", "other", "--force", "--grace-period=0")
	n.Eventually(kubelab.Limit, "all kube nodes are Ready, and seen so", func() error {
		f := n.list()
		for _, k := range f.Nodes {
			if k.Ready != "True" {
				return fmt.Errorf("%s is %s", k.Name, k.Ready)
			}
		}
		if len(f.Nodes) != 5 {
			return fmt.Errorf("%d kube nodes", len(f.Nodes))
		}
		return nil
	})
	var pods strings.Builder
	for name := range n.kube.Nodes() {
		pods.WriteString(podsOf(name))
	}
	n.kube.Apply(pods.String())
	n.Eventually(kubelab.Limit, "the pods run", func() error {
		if got := strings.Count(n.kube.Get("{.items[*].status.phase}", "pods", "-n", "storage"), "Running"); got != 15 {
			return fmt.Errorf("%d do", got)
		}
		return nil
	})
}

// podsOf are pods of each kind on a kube node.
func podsOf(node string) string {
	return podOn("storage", "endpoint-"+node, "noobaa", node) + podOn("storage", "noobaa-db-pg-"+node, "noobaa", node) +
		podOn("storage", "web-"+node, "web", node) + podOn("other", "endpoint-"+node, "noobaa", node)
}

// podOn is a pod that nobody schedules, and that ends late unless it is forced to.
func podOn(namespace, name, app, node string) string {
	return fmt.Sprintf(`
---
apiVersion: v1
kind: Pod
metadata: {namespace: %s, name: %s, labels: {app: %s}}
spec: {nodeName: %s, terminationGracePeriodSeconds: 600, containers: [{name: c, image: none.example.org/none:1}]}`, namespace, name, app, node)
}

// left are the pods of a kube node, as namespace/name, those that are being deleted
// too.
func (n *nooBaaLab) left(node string) (names []string) {
	n.t.Helper()
	out := n.kube.Get(`{range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}`, "pods", "-A",
		"--field-selector=spec.nodeName="+node)
	for name := range strings.Lines(out) {
		if !strings.HasPrefix(name, "default/") {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// kept is what NooBaa's controller leaves on a kube node.
func kept(node string) []string {
	return []string{"other/endpoint-" + node, "storage/noobaa-db-pg-" + node, "storage/web-" + node}
}

// released waits until only what is kept is left.
func (n *nooBaaLab) released(nodes ...string) {
	n.t.Helper()
	for _, node := range nodes {
		n.Eventually(kubelab.Limit, node+" keeps nothing of NooBaa's but the database", func() error {
			if left := n.left(node); !slices.Equal(left, kept(node)) {
				return fmt.Errorf("left are %v", left)
			}
			return nil
		})
	}
}

// untouched looks for a while that a kube node keeps its pods.
func (n *nooBaaLab) untouched(node string, d time.Duration) {
	n.t.Helper()
	testwait.Every(n.t, 500*time.Millisecond, d, func() {
		if left := n.left(node); !slices.Contains(left, "storage/endpoint-"+node) {
			n.t.Fatalf("left are %v", left)
		}
	})
}

// ready waits until a Node's condition is so, also to the leader.
func (n *nooBaaLab) ready(node, want string) {
	n.t.Helper()
	n.Eventually(kubelab.Limit, node+" is Ready: "+want, func() error {
		k, err := n.node(node)
		if err == nil && k.Ready != want {
			err = fmt.Errorf("it is %s", k.Ready)
		}
		return err
	})
}

func (n *nooBaaLab) edge(node string, to kubelab.Power, ready string) {
	n.kube.Power(node, to)
	n.ready(node, ready)
	n.released(node)
}

func (n *nooBaaLab) noEdge() {
	n.edge("node-2", kubelab.NotReady, "False")
	n.kube.Apply(podOn("storage", "endpoint-node-2", "noobaa", "node-2"))
	n.kube.Power("node-2", kubelab.Partition)
	n.ready("node-2", "Unknown")
	n.untouched("node-2", 5*time.Second)
}

func (n *nooBaaLab) scan() {
	n.kube.Apply("{apiVersion: v1, kind: Node, metadata: {name: node-9}}")
	n.kube.Apply(podsOf("node-9"))
	n.ready("node-9", "Unknown")
	n.untouched("node-9", 5*time.Second)
	leader := n.WaitLeader()
	leader.Kill9()
	n.released("node-9")
	leader.Start()
	n.WaitVoters(3)
	n.kube.Kubectl("delete", "node", "node-9")
}

func (n *nooBaaLab) deleted() {
	n.kube.Power("node-3", kubelab.Partition) // or it would make its Node again at once
	from := n.audit.Size()
	n.kube.Kubectl("delete", "node", "node-3")
	n.Eventually(kubelab.Limit, "it is not listed any more", func() error {
		if _, err := n.node("node-3"); err == nil {
			return errors.New("it is")
		}
		return nil
	})
	n.untouched("node-3", 5*time.Second)
	if d := n.audit.Deeds(n.t, from); len(d) > 0 {
		n.t.Errorf("done was %+v", d)
	}
}

func (n *nooBaaLab) unselected() {
	n.kube.Kubectl("label", "node", "node-4", "spare=yes")
	n.kube.Power("node-4", kubelab.NotReady)
	n.ready("node-4", "False")
	n.untouched("node-4", 5*time.Second)
	n.kube.Kubectl("label", "node", "node-4", "spare-")
}

// again lets nothing be deleted for a while. Somebody else deletes one of the pods.
func (n *nooBaaLab) again() {
	n.kube.Apply(podOn("storage", "second-endpoint", "noobaa", "node-5"))
	give := n.keepPods()
	from := n.audit.Size()
	n.kube.Power("node-5", kubelab.NotReady)
	n.Eventually(kubelab.Limit, "a deletion was refused, twice", func() error {
		refused := slices.DeleteFunc(n.audit.Deeds(n.t, from), func(d kubelab.Deed) bool { return d.Code != 403 })
		if len(refused) < 2 {
			return fmt.Errorf("%d were", len(refused))
		}
		return nil
	})
	n.kube.Kubectl("delete", "pod", "-n", "storage", "second-endpoint", "--force", "--grace-period=0")
	give()
	n.released("node-5")
}

func (n *nooBaaLab) threeAtOnce() {
	dead := []string{"node-1", "node-3", "node-5"}
	for _, node := range dead {
		n.kube.Power(node, kubelab.NotReady)
	}
	n.released(dead...)
}

// changed stops the leader right before a deletion. Another does its work, the kube
// node comes back, and has pods of the same names when the first goes on.
func (n *nooBaaLab) changed() {
	from := n.audit.Size()
	dies := func() { n.kube.Power("node-1", kubelab.NotReady) }
	leader := n.stops.stopLeader(n.Lab, beforeDelete, "", kubelab.Limit, dies)
	n.released("node-1")
	n.kube.Power("node-1", kubelab.On)
	n.ready("node-1", "True")
	n.kube.Apply(podOn("storage", "endpoint-node-1", "noobaa", "node-1"))
	leader.Cont()
	n.refusedLate(from)
	n.WaitVoters(3)
	n.untouched("node-1", 3*time.Second)
	deleted := make(map[string]int)
	for _, d := range n.audit.Deeds(n.t, from) {
		if d.Verb == "delete" && d.Code < 300 {
			deleted[d.UID]++
		}
	}
	if len(deleted) != 1 {
		n.t.Errorf("deleted were %v", deleted)
	}
}
