package failover

import (
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// An API server that answers 429 or 5xx for a while costs that while: no operator is
// called, and no second power-off command is given.
func TestBusyServerIsWaitedFor(t *testing.T) {
	for _, verb := range []string{"get node", "get lease", "patch node", "list pods", "delete pod",
		"list volumeattachments"} {
		t.Run(verb, func(t *testing.T) {
			inWorld(t, 3, 6, func(w *world) {
				w.watchRules()
				h := w.lead("h1", safe(), 0, 0)
				w.pass(time.Minute)
				w.after("to tainted", func() { w.with(func() { w.trouble.busy = verb }) })
				w.cutPower("n1")
				w.comesTo("n1", kubestate.RemTainted)
				w.pass(30 * time.Second)
				if verb == "list pods" {
					w.waitsFor(h, "not now")
				}
				w.with(func() { w.trouble.busy = "" })
				mended := time.Now()
				w.comesTo("n1", kubestate.RemDetached)
				if took := time.Since(mended); took > 10*time.Second {
					t.Errorf("busy-server: it went on %v after the API server did", took)
				}
				w.wake("n1")
				w.recovers()
				if path := w.path("n1"); path != straight || w.count("off", "n1") != 1 ||
					w.count("event FailoverStuck", "n1") != 0 {
					t.Errorf("busy-server: it went %q, with %d power-offs\n%s", path, w.count("off", "n1"), w.story())
				}
			})
		})
	}
}

// After busyLimit an operator is called. What was off goes on from there, without another
// command, when the API server does its work again.
func TestBusyServerCallsAnOperator(t *testing.T) {
	for state, verb := range map[string]string{"off": "patch node", "tainted": "list pods",
		"deleted": "list volumeattachments"} {
		t.Run(state, func(t *testing.T) {
			inWorld(t, 3, 6, func(w *world) {
				w.watchRules()
				w.lead("h1", safe(), 0, 0)
				w.pass(time.Minute)
				w.after("to "+state, func() { w.with(func() { w.trouble.busy = verb }) })
				w.cutPower("n1")
				w.until("it is "+state, time.Minute, func() bool { return w.state("n1").String() == state })
				w.pass(busyLimit - time.Minute)
				if w.state("n1") == kubestate.RemStuck {
					t.Errorf("busy-limit: it is stuck before %v", busyLimit)
				}
				w.pass(2 * time.Minute)
				if last := w.remediations("n1")[0]; last.State != kubestate.RemStuck ||
					!strings.Contains(lastReason(last), "not now") {
					t.Fatalf("busy-limit: after %v it is %v: %s", busyLimit, last.State, lastReason(last))
				}
				w.with(func() { w.trouble.busy = "" })
				w.comesTo("n1", kubestate.RemDetached)
				if n := w.count("off", "n1"); n != 1 || !strings.Contains(w.path("n1"), state+" stuck fencing off tainted") {
					t.Errorf("goes-on: it went %q, with %d power-offs\n%s", w.path("n1"), n, w.story())
				}
				w.wake("n1")
				w.recovers()
			})
		})
	}
}

// What got stuck and has power by now, or another boot, has to be taken off again.
func TestStuckMachineThatHasPowerAgainIsNotGoneOnWith(t *testing.T) {
	inWorld(t, 3, 6, func(w *world) {
		w.watchRules()
		w.lead("h1", safe(), 0, 0)
		w.pass(time.Minute)
		w.after("to tainted", func() { w.with(func() { w.trouble.busy = "list pods" }) })
		w.cutPower("n1")
		w.until("it is stuck", 2*busyLimit, func() bool { return w.state("n1") == kubestate.RemStuck })
		w.with(func() {
			w.pcs["n1"].powerOn()
			w.pcs["n1"].up = time.Now().Add(time.Hour) // its kubelet does not come
			w.trouble.busy = ""
		})
		w.comesTo("n1", kubestate.RemDetached)
		if n := w.count("off", "n1"); n != 2 {
			t.Errorf("goes-on: a machine that has power was switched off %d times\n%s", n, w.story())
		}
	})
}
