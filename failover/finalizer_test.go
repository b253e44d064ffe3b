package failover

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// hold makes pods on n1 that finalizers hold. By name they come before all others.
func (w *world) hold(n int) {
	w.with(func() {
		for i := range n {
			p := w.make(fmt.Sprintf("held-%03d", i), "n1")
			p.held = true
		}
	})
}

// letGo takes the finalizers away.
func (w *world) letGo() {
	w.with(func() {
		for name, p := range w.pods {
			if p.held = false; p.Finalizing {
				delete(w.pods, name)
			}
		}
	})
}

// What finalizers hold is deleted once, waited for with pauses, and named when that
// takes too long. It keeps no other pod from being deleted.
func TestPodsThatFinalizersHold(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.watchRules()
		h := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.hold(60)
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemTainted)
		before := len(h.done("read power"))
		w.pass(110 * time.Second)
		if n := w.count("delete", "n1"); n != 61 {
			t.Errorf("finalizers: %d deletions of 61 pods", n)
		}
		if w.runs("s-1") == "" || w.runs("s-1") == "n1" {
			t.Error("finalizers: a pod that nothing holds was not moved")
		}
		if n := len(h.done("read power")) - before; n > 40 {
			t.Errorf("finalizers: the power was read %d times in 110 s", n)
		}
		if s := w.state("n1"); s != kubestate.RemTainted {
			t.Errorf("finalizers: it is %v while pods are left", s)
		}
		w.comesTo("n1", kubestate.RemStuck)
		if why := lastReason(w.remediations("n1")[0]); !strings.Contains(why, "60 pods") ||
			!strings.Contains(why, modelSpace+"/held-000") {
			t.Errorf("finalizers: the reason is %q", why)
		}
		w.pass(time.Second)
		if w.count("event FailoverStuck", "n1") != 1 {
			t.Errorf("finalizers: %d Events say that it is stuck", w.count("event FailoverStuck", "n1"))
		}
		w.letGo()
		w.with(func() { w.trouble.operator = true })
		w.recovers()
	})
}

// A pod that something changes again and again is tried with pauses.
func TestPodThatChangesAllTheTime(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		h := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.with(func() { w.trouble.restless = "s-1" })
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemTainted)
		before := len(h.done("delete pod"))
		w.pass(20 * time.Second)
		if n := len(h.done("delete pod")) - before; n < 2 || n > 20 {
			t.Errorf("restless: %d deletions were tried within 20 s", n)
		}
		w.with(func() { w.trouble.restless, w.trouble.operator = "", true })
		w.recovers()
	})
}

// A pod whose deletion is refused, or that changes all the time, keeps no pod after it; what is
// left is named. So it is in the compatible mode.
func TestPodThatCannotBeDeletedKeepsNoOther(t *testing.T) {
	for name, begins := range map[string]func(w *world, pod string){
		"refused":  func(w *world, pod string) { w.trouble.guarded = pod },
		"restless": func(w *world, pod string) { w.trouble.restless = pod },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 5, 2, func(w *world) {
				w.watchRules()
				w.lead("h1", safe(), 0, 0)
				w.pass(time.Minute)
				w.with(func() {
					begins(w, "a-first")
					for i := range maxBatch + 10 {
						w.make(fmt.Sprintf("b-%03d", i), "n1")
					}
					w.make("a-first", "n1")
				})
				w.cutPower("n1")
				w.comesTo("n1", kubestate.RemTainted)
				w.pass(5 * time.Second)
				if n := w.count("delete", "n1"); n != maxBatch+11 {
					t.Errorf("one-refused: %d pods were deleted within 5 s, want all others, %d", n, maxBatch+11)
				}
				if why := lastReason(w.remediations("n1")[0]); name == "refused" && (w.state("n1") != kubestate.RemStuck ||
					!strings.Contains(why, "the deletion of "+modelSpace+"/a-first failed")) {
					t.Errorf("one-refused: it is %v, and the reason is %q", w.state("n1"), why)
				}
				w.with(func() { w.trouble.guarded, w.trouble.restless, w.trouble.operator = "", "", true })
				w.recovers()
			})
		})
	}
	inNooBaa(t, 3, nil, func(w *world) {
		w.with(func() { w.trouble.guarded = "a-first"; w.make("a-first", "n1") })
		w.sick("n1", true)
		w.pass(5 * time.Second)
		if names := w.deletedOn("n1"); len(names) == 0 {
			t.Error("one-refused: in the compatible mode no pod was deleted")
		}
	})
}

// done returns the deeds of a leader that have a name.
func (h *hand) done(what string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.deeds), func(d string) bool { return d != what })
}
