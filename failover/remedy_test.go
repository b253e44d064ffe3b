package failover

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

const straight = "intent cordoned fencing off tainted deleted detached recovered"

// well reports whether every pod runs on one machine, no mark is left and nothing
// is open.
func (w *world) well() bool {
	if len(w.ledger.view().Remediations()) > 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range w.sets {
		p := w.pods[name]
		if p == nil || p.Deleting || w.pcs[p.Node].runs[name] != p.UID {
			return false
		}
	}
	for _, n := range w.nodes {
		if slices.ContainsFunc(n.Taints, isOurs) {
			return false
		}
	}
	return true
}

// recovers waits until all is well, and stays so: nothing is under way any more.
func (w *world) recovers() {
	w.t.Helper()
	w.until("all is well", 30*time.Minute, w.well)
	w.pass(90 * time.Second)
	w.until("all stays well", 30*time.Minute, w.well)
}

func TestPowerLossMovesTheWork(t *testing.T) {
	inWorld(t, 3, 1, func(w *world) {
		w.watchRules()
		h := w.lead("h1", safe(), 0, 0)
		defer h.leave()
		w.pass(time.Minute)
		w.cutPower("n1")
		began := time.Now()
		w.until("the pod runs elsewhere", 30*time.Second, func() bool { return w.runs("s-1") != "" && w.runs("s-1") != "n1" })
		t.Logf("it runs again %v after the power loss", time.Since(began))
		w.until("it is detached", time.Minute, func() bool { return w.state("n1") == kubestate.RemDetached })
		w.with(func() { w.pcs["n1"].powerOn() })
		w.recovers()
		if got := w.path("n1"); got != straight {
			t.Errorf("it went %s", got)
		}
		if !w.order("n1", "add "+TaintCordon, "off", "add "+TaintOutOfService, "delete", "remove "+TaintOutOfService,
			"remove "+TaintCordon) {
			t.Errorf("the order is wrong\n%s", w.story())
		}
		if n := w.count("delete", "n1"); n != 1 {
			t.Errorf("%d pods were deleted, not its only one", n)
		}
		for _, event := range []string{"FailoverBegun", "FailoverOff", "FailoverDeleted", "FailoverEnded"} {
			if w.count("event "+event, "n1") != 1 {
				t.Errorf("event %s was told %d times", event, w.count("event "+event, "n1"))
			}
		}
	})
}

// runs returns the machine on which a pod really runs.
func (w *world) runs(pod string) (on string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.machines() {
		if p.on && p.runs[pod] != "" {
			on = p.name
		}
	}
	return on
}

// A machine that lives is never given up for the sake of what its pods do elsewhere.
func TestBadDays(t *testing.T) {
	for _, day := range badDays() {
		t.Run(day.name, func(t *testing.T) {
			inWorld(t, 5, 2, func(w *world) {
				w.watchRules()
				w.with(func() { w.trouble.operator = true })
				s := safe()
				if day.settings != nil {
					day.settings(&s)
				}
				h := w.lead("h1", s, 0, 0)
				defer h.leave()
				w.pass(time.Minute)
				day.happens(w)
				if !day.stays {
					w.recovers()
				}
				if day.path != "" && !strings.Contains(w.path("n1"), day.path) {
					t.Errorf("n1 went %q, want %q\n%s", w.path("n1"), day.path, w.story())
				}
				if day.also != nil {
					day.also(w)
				}
			})
		})
	}
}

// Whatever the API server does not let us do is named, nothing goes on without it,
// and once it may be done the work is finished.
func TestEveryMissingVerb(t *testing.T) {
	for _, verb := range []string{"get node", "get lease", "patch node", "list pods", "delete pod",
		"list volumeattachments"} {
		t.Run(verb, func(t *testing.T) {
			inWorld(t, 3, 6, func(w *world) {
				w.watchRules()
				w.with(func() { w.trouble.operator = true })
				w.lead("h1", safe(), 0, 0)
				w.pass(time.Minute)
				w.after("begin", func() { w.with(func() { w.trouble.forbidden = verb }) })
				w.cutPower("n1")
				w.comesTo("n1", kubestate.RemStuck)
				if why := lastReason(w.remediations("n1")[0]); !strings.Contains(why, "cannot "+verb) {
					t.Errorf("the reason names no verb: %q", why)
				}
				w.pass(3 * time.Minute)
				w.with(func() { w.trouble.forbidden = "" })
				w.recovers()
			})
		})
	}
}
