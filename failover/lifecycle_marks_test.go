package failover

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// bear puts a mark on a Node, with the status for a condition.
func (m lifecycleMark) bear(n *Node, status Observed) {
	value := m.value
	if value == "" {
		value = "2026-11-29T00:00:00Z"
	}
	switch m.kind {
	case onSpec:
		n.Unschedulable = true
	case onCondition:
		n.Conditions = map[string]Observed{m.key: status}
	case onTaint:
		n.Taints = append(n.Taints, Taint{Key: m.key, Value: m.value, Effect: "NoSchedule"})
	case onLabel:
		n.Labels = map[string]string{m.key: value}
	case onAnnotation:
		n.Annotations[m.key] = value
	}
}

// shed takes it away again.
func (m lifecycleMark) shed(n *Node) {
	n.Unschedulable, n.Conditions, n.Labels = false, nil, nil
	n.Taints = slices.DeleteFunc(n.Taints, func(t Taint) bool { return t.Key == m.key })
	delete(n.Annotations, m.key)
}

// markRails are the marks as guard rails that begin to forbid and cease to: by the watch,
// and by the storage alone. That of a shutdown does not forbid the power-off of a machine
// that is off: TestShutdownIsWaitedFor is about one that is not.
func markRails() (out []lateRail) {
	for _, m := range lifecycleMarks() {
		if m.key == conditionShutdown {
			continue
		}
		for _, seen := range []bool{true, false} {
			name := m.key
			if !seen {
				name += " that the watch does not show"
			}
			change := func(w *world, f func(n *Node)) {
				w.with(func() {
					if f(&w.nodes["n1"].Node); seen {
						w.touch(w.nodes["n1"])
					}
				})
			}
			says := m.key
			if m.kind == onSpec {
				says = "it is cordoned"
			}
			out = append(out, lateRail{name: name, says: says,
				forbid: func(w *world, _ *Settings) { change(w, func(n *Node) { m.bear(n, ObservedTrue) }) },
				lift: func(w *world, _ *Settings) {
					seen = true
					change(w, m.shed)
				}})
		}
	}
	return out
}

// Each mark holds a remediation that has begun before its next command, under the leader
// that began it and the next one, and lets it go on when it is gone.
func TestMarksAreAskedBeforeEachCommand(t *testing.T) {
	for i, rail := range markRails() {
		moment := []string{"begin", "to cordoned", "to fencing", "stuck"}[i%4]
		t.Run(rail.name+"/"+moment, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 5, 2, func(w *world) { w.meetsRail(rail, moment, i%3 == 0) })
		})
	}
}

// A mark that was there when the kube node fell silent: one that holds does so for as long
// as it is there; the others until Ready has not been True for not_ready_after. Nothing is
// believed of a condition that is False, and one whose writer cannot tell is no reason to
// wait for ever.
func TestMarksOfANodeThatFalls(t *testing.T) {
	for _, m := range lifecycleMarks() {
		for _, status := range []Observed{ObservedTrue, ObservedUnknown} {
			if m.kind != onCondition && status == ObservedUnknown {
				continue
			}
			t.Run(m.key+" "+string(status), func(t *testing.T) {
				t.Parallel()
				inWorld(t, 5, 2, func(w *world) {
					w.watchRules()
					w.lead("h1", safe(), 0, 0)
					w.pass(time.Minute)
					w.with(func() {
						m.bear(&w.nodes["n1"].Node, status)
						w.touch(w.nodes["n1"])
						w.pcs["n1"].hung, w.pcs["n1"].hidden = true, true // it runs on
					})
					w.pass(5 * time.Minute)
					if n := w.count("off", "n1"); n > 0 {
						t.Fatalf("marks: %d commands to a machine that is away on purpose\n%s", n, w.story())
					}
					w.pass(time.Hour)
					want := !m.holds || status == ObservedUnknown
					if got := w.count("off", "n1") > 0; got != want {
						t.Fatalf("marks: after an hour its power was taken: %v, want %v\n%s", got, want, w.story())
					}
					if want {
						return
					}
					w.with(func() {
						m.shed(&w.nodes["n1"].Node)
						w.touch(w.nodes["n1"])
					})
					w.comesTo("n1", kubestate.RemDetached)
				})
			})
		}
	}
}

// What looks like a mark and is none.
func TestNoMarks(t *testing.T) {
	for name, n := range map[string]Node{
		"none":              {},
		"another value":     {Labels: map[string]string{"remediation.medik8s.io/exclude-from-remediation": "false"}},
		"opt-out is false":  {Annotations: map[string]string{AnnotationOptOut: "false"}},
		"a label's name":    {Annotations: map[string]string{"remediation.medik8s.io/exclude-from-remediation": "true"}},
		"done":              {Annotations: map[string]string{"machineconfiguration.openshift.io/state": "Done"}},
		"a candidate":       {Taints: []Taint{{Key: "DeletionCandidateOfClusterAutoscaler"}}},
		"our own":           {Taints: []Taint{{Key: TaintCordon}, outOfService()}},
		"another condition": {Lifecycle: Lifecycle{Conditions: map[string]Observed{"DiskPressure": ObservedTrue}}},
	} {
		if why := n.held() + n.planned(); why != "" {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// A kubelet that reports a shutdown without its condition marks its Node as well: the machine
// may be restarted on purpose.
func TestKubeletThatReportsAShutdown(t *testing.T) {
	stopping := Node{Ready: kubestate.ReadyFalse, Lifecycle: Lifecycle{Stopping: true}}
	if why := stopping.planned(); !strings.Contains(why, "shutting down") {
		t.Errorf("marks: a machine that shuts down is planned to: %q", why)
	}
	watched := &nodeFacts{WatchedNode: WatchedNode{Node: stopping}}
	if why := byPlannedWork(&facts{settings: safe()}, watched); !strings.Contains(why, "on purpose") {
		t.Errorf("marks: the rail forbids nothing: %q", why)
	}
}

// The page has each mark in one row of its table, and no other.
func TestMarksAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/failover.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "<a id=\"marks\"></a>")
	table, _, _ = strings.Cut(table, "\n## ")
	if !found {
		t.Fatal("docs/failover.md has no table of marks")
	}
	rows := make(map[string]bool)
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			for _, key := range strings.Split(cells[1], "`") {
				rows[key] = rows[key] || strings.Contains(cells[2], "nothing is done")
			}
		}
	}
	for _, m := range lifecycleMarks() {
		if holds, there := rows[m.key]; !there || holds != m.holds {
			t.Errorf("docs/failover.md: mark %s: in the table %v, holds %v, want %v", m.key, there, holds, m.holds)
		}
	}
}
