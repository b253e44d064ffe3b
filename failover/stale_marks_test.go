package failover

import (
	"slices"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// put puts taints on a Node, as somebody did.
func (w *world) put(node string, taints ...Taint) {
	w.with(func() {
		n := w.nodes[node]
		n.Taints = append(n.Taints, taints...)
		w.touch(n)
	})
}

func (w *world) taints(node string) (have []Taint) {
	w.with(func() { have = slices.Clone(w.nodes[node].Taints) })
	return have
}

func TestSweepTakesWhatIsLeft(t *testing.T) {
	cordon := Taint{TaintCordon, "7", "NoSchedule"}
	foreign := Taint{TaintOutOfService, "nodeshutdown", "NoExecute"}
	for _, row := range []struct {
		name  string
		marks []Taint
		down  bool
		left  []Taint
	}{
		{"marks of a remediation that is forgotten", []Taint{cordon, outOfService()}, false, nil},
		{"what others say", []Taint{foreign, cordon}, false, []Taint{foreign}},
		{"a machine that is down keeps them", []Taint{cordon, outOfService()}, true, []Taint{cordon, outOfService()}},
	} {
		t.Run(row.name, func(t *testing.T) {
			inWorld(t, 5, 5, func(w *world) {
				w.put("n1", row.marks...)
				if row.down {
					w.with(func() { w.pcs["n1"].powerOff(); w.nodes["n1"].Ready = kubestate.ReadyUnknown })
				}
				s := safe()
				s.Mode, s.Guard.MinHealthy = ModeSafe, percent(100) // nothing is begun here
				w.lead("h1", s, 0, 0)
				w.pass(3 * time.Minute)
				if have := w.taints("n1"); !slices.Equal(have, row.left) {
					t.Errorf("the taints are %v, want %v", have, row.left)
				}
			})
		})
	}
}

// A remediation is cancelled, and its leader is killed before the cordon is gone.
func TestSweepAfterACancelThatWasCutShort(t *testing.T) {
	inWorld(t, 5, 5, func(w *world) {
		h := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.fault("n1", deviceHangs)
		w.cut(true, "n1")
		w.comesTo("n1", kubestate.RemFencing)
		w.after("to cancelled", h.end)
		w.cut(false, "n1")
		w.comesTo("n1", kubestate.RemCancelled)
		h.leave()
		if len(w.taints("n1")) == 0 {
			t.Fatal("it took the cordon away in spite of its end")
		}
		w.lead("h2", safe(), 0, 0)
		w.recovers()
	})
}

// An operator cancels what was off: the marks stay until the node is well.
func TestSweepAfterAnOperatorsCancel(t *testing.T) {
	inWorld(t, 5, 5, func(w *world) {
		w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.with(func() { w.trouble.forbidden = "delete pod" })
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemStuck)
		w.ledger.must(kubestate.PauseFailover{Paused: true})
		w.ledger.must(kubestate.ReleaseRemediation{Intent: w.remediations("n1")[0].Intent, To: kubestate.RemCancelled,
			By: "me"})
		w.pass(2 * time.Minute)
		if len(w.taints("n1")) != 2 {
			t.Errorf("a machine that is off lost its marks: %v", w.taints("n1"))
		}
		w.wake("n1")
		w.until("the marks are gone", 5*time.Minute, func() bool { return len(w.taints("n1")) == 0 })
	})
}
