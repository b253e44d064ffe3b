package failover

import (
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// lateBudgets are those that are asked while another kube node is being remedied.
func lateBudgets() []lateRail {
	return []lateRail{
		{name: "budget", says: "no further disruption is allowed by PodDisruptionBudget pdb", othersFirst: true,
			forbid: func(w *world, _ *Settings) {
				w.with(func() { w.trouble.exhausted, w.trouble.lacking = []string{"pdb"}, true })
			},
			lift: func(w *world, _ *Settings) { w.with(func() { w.trouble.exhausted = nil }) }},
		{name: "budgets that cannot be read", says: "the PodDisruptionBudgets cannot be read", othersFirst: true,
			forbid: func(w *world, _ *Settings) {
				w.with(func() { w.trouble.forbidden = "list poddisruptionbudgets" })
			},
			lift: func(w *world, _ *Settings) { w.with(func() { w.trouble.forbidden = "" }) }},
	}
}

// A machine that waits for its repair, or that no device can switch off, does not hold another
// that dies because of a budget that lacks nothing but that one's own pods. One that lacks a pod
// elsewhere holds it, for as long as it does.
func TestBudgetWhileAnotherMachineWaits(t *testing.T) {
	for _, row := range []struct {
		name    string
		state   kubestate.State // in which n1 waits
		lacking bool
	}{
		{"repair", kubestate.RemDetached, false},
		{"no device", kubestate.RemStuck, false},
		{"repair, and a pod is on the move", kubestate.RemDetached, true},
		{"no device, and a pod is missing", kubestate.RemStuck, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			inWorld(t, 5, 2, func(w *world) {
				h := w.lead("h1", safe(), 0, 0)
				w.pass(time.Minute)
				if row.state == kubestate.RemStuck {
					w.fault("n1", bothCannot)
				}
				w.cutPower("n1")
				w.comesTo("n1", row.state)
				w.pass(20 * time.Minute)
				w.with(func() { w.trouble.exhausted, w.trouble.lacking = []string{"db/primary"}, row.lacking })
				w.cutPower("n2")
				w.pass(5 * time.Minute)
				if offs := w.count("off", "n2"); (offs > 0) == row.lacking {
					t.Errorf("own-budget: %d power-offs of n2, and that its budget lacks pods elsewhere is %v\n%s", offs, row.lacking,
						w.story())
				}
				for _, v := range h.c.Verdicts("k") {
					if v.Held() != (row.lacking && v.Node.Name == "n2") {
						t.Errorf("held: %s is told to be left alone: %v, %q", v.Node.Name, v.Held(), v.Why)
					}
				}
				w.with(func() { w.trouble.lacking = false })
				w.comesTo("n2", kubestate.RemDetached)
			})
		})
	}
}

// Until the pods of the first machine count in the budgets, one that allows nothing holds the
// second, also if nothing of it seems to be missing elsewhere.
func TestBudgetWhilePodsMove(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.with(func() { w.trouble.exhausted = []string{"db/primary"} })
		w.cutPower("n1", "n2")
		w.pass(time.Minute)
		a, b := w.count("off", "n1"), w.count("off", "n2")
		if (a > 0) == (b > 0) {
			t.Errorf("moving-pods: %d and %d power-offs of two that died together, want one of one\n%s", a, b, w.story())
		}
		w.pass(time.Minute)
		if w.count("off", "n1") == 0 || w.count("off", "n2") == 0 {
			t.Errorf("moving-pods: the second one waits on though nothing is missing elsewhere\n%s", w.story())
		}
	})
}
