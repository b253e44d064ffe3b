package failover

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// crowd puts more pods on n1, which the taint controller is slow to end.
func (w *world) crowd(n int) {
	w.with(func() {
		for i := range n {
			w.make(fmt.Sprintf("more-%03d", i), "n1").marked = time.Now().Add(time.Hour)
		}
	})
}

// The power is read before the pods are listed, and again after every fifty
// deletions at the latest.
func TestPodsAreDeletedOnAFreshProof(t *testing.T) {
	const most = 50 // as docs/failover.md promises
	inWorld(t, 5, 2, func(w *world) {
		h := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.crowd(120)
		w.cutPower("n1")
		w.until("its pods are deleted", 5*time.Minute, func() bool { return strings.Contains(w.path("n1"), "deleted") })
		h.mu.Lock()
		defer h.mu.Unlock()
		sinceRead, listed, deleted := -1, false, 0 // deletions since the power was read
		for _, what := range h.deeds {
			switch what {
			case "read power":
				sinceRead, listed = 0, false
			case "list pods":
				listed = true
			case "delete pod":
				deleted++
				if sinceRead++; sinceRead > most {
					t.Fatalf("fresh-proof: %d deletions after the power was read", sinceRead)
				}
				if !listed {
					t.Fatal("fresh-proof: a pod was deleted as it was listed before the power was read")
				}
			}
		}
		if deleted < 100 {
			t.Errorf("only %d pods were deleted", deleted)
		}
	})
}

// The taint controller ends pods while the kubelet is asked: they are listed after that,
// and each is deleted at the first try.
func TestPodsAreListedAfterTheKubeletIsAsked(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		h := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.crowd(10)
		w.after("to tainted", func() {
			w.after("knock", func() {
				w.pass(againLimit / 2)
				w.with(func() {
					for _, p := range w.podsOn("n1") {
						w.touchPod(p)
					}
				})
			})
		})
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemDetached)
		deleted := w.count("delete", "n1")
		h.mu.Lock()
		defer h.mu.Unlock()
		tries := 0
		for _, what := range h.deeds {
			if what == "delete pod" {
				tries++
			}
		}
		if deleted < 10 || tries != deleted {
			t.Errorf("listed-late: %d pods were deleted in %d tries", deleted, tries)
		}
	})
}

// A proof ends while its deletions are slow, and the machine is switched on.
func TestProofEndsInTheMiddleOfABatch(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.watchRules()
		w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.crowd(20)
		w.with(func() { w.trouble.slowDelete = 1500 * time.Millisecond })
		w.after("delete pod", func() { w.with(func() { w.pcs["n1"].powerOn() }) })
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemTainted)
		w.comesTo("n1", kubestate.RemFencing)
		w.with(func() { w.trouble.slowDelete, w.trouble.operator = 0, true })
		w.recovers()
	})
}

// The boot ID is the first that a machine shows which has booted: it may do so
// before it renews its Lease.
func TestBootIDEndsAProof(t *testing.T) {
	booted := func(w *world) func() {
		return func() {
			w.with(func() {
				w.nodes["n1"].BootID = "boot-n1-by-hand"
				w.touch(w.nodes["n1"])
			})
		}
	}
	t.Run("before the power is taken", func(t *testing.T) {
		inWorld(t, 5, 2, func(w *world) {
			w.lead("h1", safe(), 0, 0)
			w.pass(time.Minute)
			w.after("begin", booted(w))
			w.cutPower("n1")
			w.until("the first remediation has ended", 5*time.Minute, func() bool {
				all := w.remediations("n1")
				return len(all) > 0 && (all[0].State.Ended() || all[0].WasOff)
			})
			if m := w.remediations("n1")[0]; m.State != kubestate.RemCancelled || m.Attempts > 0 {
				t.Errorf("boot-id: a machine that has booted since was acted on: %v after %d commands", m.State, m.Attempts)
			}
		})
	})
	t.Run("between the list of pods and the deletion", func(t *testing.T) {
		inWorld(t, 5, 2, func(w *world) {
			w.lead("h1", safe(), 0, 0)
			w.pass(time.Minute)
			// The watch is behind: the read after the list is what shows it.
			w.after("list pods", func() { w.with(func() { w.nodes["n1"].BootID = "boot-n1-by-hand" }) })
			w.cutPower("n1")
			w.stuckOrEmptied("n1")
			if path := w.path("n1"); !strings.Contains(path, "tainted fencing") {
				t.Errorf("boot-id: a machine that had booted was not fenced again: it went %q", path)
			}
		})
	})
}

// The two readings that make an off are new enough for the taint and for the first batch of
// pods, and the silence of the kubelet was waited for: the work is free as soon as the
// API server has answered. All that costs no time is asked at each step all the same.
func TestWorkIsFreeRightAfterOff(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.watchRules()
		h := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemDetached)
		const most = 150 * time.Millisecond // ten requests of 6 ms, and two knocks
		if took := time.Duration(w.deleted("s-1") - w.step("n1", kubestate.RemOff)); took > most {
			t.Errorf("free-after-off: its pod was deleted %v after off was logged, want at most %v", took, most)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, step := range [][2]string{{"to off", "to tainted"}, {"to tainted", "delete pod"}} {
			from, to := slices.Index(h.deeds, step[0]), slices.Index(h.deeds, step[1])
			if from < 0 || to < from {
				t.Fatalf("free-after-off: no %s after %s: %v", step[1], step[0], h.deeds)
			}
			for _, deed := range []string{"knock", "get node", "get lease"} {
				if !slices.Contains(h.deeds[from:to], deed) {
					t.Errorf("free-after-off: no %q between %s and %s: %v", deed, step[0], step[1], h.deeds[from:to])
				}
			}
		}
	})
}

// deleted returns when a leader deleted a pod.
func (w *world) deleted(pod string) fsm.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.audit {
		if d.verb == "delete" && strings.HasPrefix(d.uid, "pod-"+pod+"-") {
			return fsm.Time(d.at.Sub(w.ledger.began))
		}
	}
	w.t.Fatalf("%s was never deleted", pod)
	return 0
}

// The API server is slow, and somebody switches the machine on after it was read off: a
// reading that is a second old is for no further step.
func TestOldReadingIsForNoStep(t *testing.T) {
	for _, after := range []string{"to off", "to tainted"} {
		t.Run(after, func(t *testing.T) {
			inWorld(t, 5, 2, func(w *world) {
				w.watchRules()
				w.with(func() { w.trouble.operator = true })
				w.lead("h1", safe(), 0, 0)
				w.pass(time.Minute)
				w.after(after, func() {
					w.with(func() { w.pcs["n1"].powerOn() })
					w.pass(1100 * time.Millisecond)
				})
				w.cutPower("n1")
				w.comesTo("n1", kubestate.RemDetached)
				if path := w.path("n1"); !strings.Contains(path, strings.TrimPrefix(after, "to ")+" fencing") {
					t.Errorf("old-reading: the power was not read again: it went %q", path)
				}
			})
		})
	}
}
