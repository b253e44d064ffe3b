package failover

import (
	"testing"
	"time"
)

// reads is how often the power of a machine was read under a leadership.
func (h *hand) reads() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, what := range h.deeds {
		if what == "read power" {
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
				if n := h.reads(); n > row.most {
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
