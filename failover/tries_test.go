package failover

import (
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// triesAreOver lets the device of n1 answer again, and fails the test if it gets a
// power-off command then.
func (w *world) triesAreOver() {
	w.t.Helper()
	before := w.count("off", "n1")
	w.fault("n1", "")
	w.pass(2 * time.Minute)
	if n := w.count("off", "n1") - before; n > 0 {
		w.t.Errorf("tries: a machine that is back was switched off %d times\n%s", n, w.story())
	}
}

// One fault takes a machine and its device, which is tried for minutes. The machine is
// back first, and is not switched off, whoever leads by then.
func TestMachineThatIsBackEndsTheTries(t *testing.T) {
	for name, row := range map[string]struct{ dies, back func(w *world) }{
		"its switch fails": {
			func(w *world) { w.hear("n1", false, false) },
			func(w *world) { w.hear("n1", true, true) },
		},
		"its switch fails, and peers do not hear it later": {
			func(w *world) { w.hear("n1", false, false) },
			func(w *world) { w.hear("n1", true, false) },
		},
		"its breaker falls": {
			func(w *world) { w.cutPower("n1") },
			func(w *world) { w.wake("n1") },
		},
		"its breaker falls, and it is not Ready yet": {
			func(w *world) { w.cutPower("n1") },
			func(w *world) {
				w.with(func() { w.pcs["n1"].sick = true })
				w.wake("n1")
			},
		},
	} {
		for _, next := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				inWorld(t, 5, 2, func(w *world) {
					h := w.lead("h1", safe(), 0, 0)
					w.pass(time.Minute)
					w.fault("n1", deviceAway)
					row.dies(w)
					w.comesTo("n1", kubestate.RemFencing)
					w.pass(10 * time.Second)
					if next {
						h.leave()
						w.lead("h2", safe(), 0, 0)
						w.pass(30 * time.Second)
					}
					row.back(w)
					w.pass(30 * time.Second)
					w.triesAreOver()
					if m := w.remediations("n1")[0]; m.State != kubestate.RemCancelled {
						t.Errorf("tries: its remediation is %v\n%s", m.State, w.story())
					}
				})
			})
		}
	}
}

// One that was ill for long boots while its device is tried: what it was before is over.
func TestIllMachineThatBootsEndsTheTries(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.fault("n1", deviceAway)
		w.sick("n1", true)
		w.until("it is commanded", 10*time.Minute, func() bool { return w.state("n1") == kubestate.RemFencing })
		w.cutPower("n1")
		w.pass(5 * time.Second)
		w.wake("n1")
		w.pass(10 * time.Second)
		w.pass(2 * time.Minute) // it is not Ready yet, and has to be for long again
		over := func(m kubestate.Remediation) bool { return m.State == kubestate.RemCancelled }
		if all := w.remediations("n1"); !over(all[len(all)-1]) {
			t.Errorf("ill-boots: it is fenced again while it starts\n%s", w.story())
		}
		w.until("it is commanded again", 10*time.Minute, func() bool { return w.state("n1") == kubestate.RemFencing })
	})
}

// A Node tells another boot before its Lease is renewed: its machine has booted, and the tries
// end although it is silent.
func TestBootThatTheNodeTellsEndsTheTries(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.fault("n1", deviceAway)
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemFencing)
		w.pass(10 * time.Second)
		w.with(func() {
			w.nodes["n1"].BootID = "another boot"
			w.touch(w.nodes["n1"])
		})
		w.pass(30 * time.Second)
		if m := w.remediations("n1")[0]; m.State != kubestate.RemCancelled {
			t.Errorf("tries: its remediation is not over, but %v\n%s", m.State, w.story())
		}
	})
}

// One that was off has power again, and boots while its device is tried once more.
func TestMachineThatWasOffEndsTheTries(t *testing.T) {
	inWorld(t, 5, 2, func(w *world) {
		first := w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.after("to tainted", first.end)
		w.cutPower("n1")
		w.comesTo("n1", kubestate.RemTainted)
		first.leave()
		w.with(func() {
			w.pcs["n1"].powerOn()
			w.pcs["n1"].up = time.Now().Add(time.Hour) // its kubelet starts below
		})
		w.after("to fencing", func() { w.fault("n1", deviceAway) })
		w.lead("h2", safe(), 0, 0)
		w.comesTo("n1", kubestate.RemFencing)
		w.pass(10 * time.Second)
		w.with(func() { w.pcs["n1"].up = time.Now() })
		w.pass(30 * time.Second)
		w.triesAreOver()
		w.recovers()
	})
}
