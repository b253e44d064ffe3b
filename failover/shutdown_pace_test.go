package failover

import (
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// did is how often something was done under a leadership.
func (h *hand) did(deed string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, what := range h.deeds {
		if what == deed {
			n++
		}
	}
	return n
}

// A machine that is off for its repair, and about which nothing is to be done, is asked seldom; as soon as
// something is, its work is moved as that of any other.
func TestWhatStaysShutDownIsAskedSeldom(t *testing.T) {
	for name, row := range map[string]struct {
		fault string
		most  int // readings of two devices
	}{
		"off":           {"", 500},
		"login refused": {deviceLogin, 30},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 5, 2, func(w *world) {
				h := w.lead("h1", safe(), 0, 0)
				w.fault("n1", row.fault)
				w.pass(time.Minute)
				mark := func(conditions map[string]Observed) {
					w.with(func() {
						w.nodes["n1"].Conditions = conditions
						w.nodes["n1"].Unschedulable = true
						w.touch(w.nodes["n1"])
					})
				}
				mark(map[string]Observed{"MaintenanceInProgress": ObservedTrue})
				w.shutDown("n1", 20*time.Second, 0)
				w.pass(time.Hour)
				if n := h.did("read power"); n > row.most {
					t.Errorf("asked-for-days: the power of a machine that is left off was read %d times in an hour, at most %d",
						n, row.most)
				}
				if row.fault == "" {
					mark(nil)
					w.movedWithin("n1", movedBy)
				}
			})
		})
	}
}

// A machine that was shut down, and whose remediation a budget or its device holds, is asked seldom, and so are the
// budgets; as soon as they hold it no more, its work is moved.
func TestWhatIsHeldShutDownIsAskedSeldom(t *testing.T) {
	for name, row := range map[string]struct {
		on      func(n *Node)
		hold    func(w *world)
		release func(w *world)
		within  time.Duration // of the release
	}{
		"budget": {
			hold: func(w *world) {
				w.with(func() { w.trouble.exhausted, w.trouble.lacking = []string{"db/primary"}, true })
			},
			release: func(w *world) { w.with(func() { w.trouble.exhausted = nil }) },
			within:  shutdownSeldom + movedBy,
		},
		"stuck": {
			hold:    func(w *world) { w.fault("n1", bothCannot) },
			release: func(w *world) { w.fault("n1", "") },
			within:  stuckRetry + movedBy,
		},
		"kured": {
			on: func(n *Node) { n.Annotations["weave.works/kured-reboot-in-progress"] = "2026-01-01T00:00:00Z" },
			release: func(w *world) {
				w.with(func() {
					delete(w.nodes["n1"].Annotations, "weave.works/kured-reboot-in-progress")
					w.touch(w.nodes["n1"])
				})
			},
			within: movedBy,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 7, 2, func(w *world) {
				s := safe()
				if row.on != nil {
					s.Detection.NotReadyAfter = 0
				}
				h := w.lead("h1", s, 0, 0)
				w.pass(time.Minute)
				w.cutPower("n2")
				w.comesTo("n2", kubestate.RemDetached)
				w.pass(20 * time.Minute)
				if row.hold != nil {
					row.hold(w)
				}
				w.with(func() {
					if row.on != nil {
						row.on(&w.nodes["n1"].Node)
						w.touch(w.nodes["n1"])
					}
				})
				w.shutDown("n1", 20*time.Second, 0)
				power, budgets := h.did("read power"), h.did("list poddisruptionbudgets")
				w.pass(time.Hour)
				power, budgets = h.did("read power")-power, h.did("list poddisruptionbudgets")-budgets
				if power > 500 || budgets > 500 {
					t.Errorf("held-for-days: its power was read %d times in an hour, budgets %d times", power, budgets)
				}
				if n := w.count("delete", "n1"); n > 0 {
					t.Fatalf("held-for-days: its work was moved\n%s", w.story())
				}
				row.release(w)
				w.movedWithin("n1", row.within)
			})
		})
	}
}
