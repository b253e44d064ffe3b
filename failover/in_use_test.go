package failover

import (
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// A machine of which its device says that it is introspected, or cleaned, keeps its power for as long, and no
// other device takes it. Where it does not come back by itself, its work is moved when that has ended.
func TestAMachineInUseKeepsItsPower(t *testing.T) {
	for name, row := range map[string]struct {
		back  bool // with a kubelet, when the use has ended
		ended kubestate.State
	}{
		"it is back": {true, kubestate.RemCancelled}, "it stays away": {false, kubestate.RemDetached},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 5, 2, func(w *world) {
				h := w.lead("h1", safe(), 0, 0)
				w.pass(time.Minute)
				w.fault("n1", deviceInUse)
				w.cutPower("n1")
				w.comesTo("n1", kubestate.RemFencing)
				w.pass(20 * time.Minute)
				steps := len(w.remediations("n1")[0].Steps)
				why := ""
				for _, v := range h.c.Verdicts("k") {
					if v.Node.Name == "n1" {
						why = strings.Join(v.Why, "; ")
					}
				}
				if w.count("off", "n1") > 0 || steps != 3 || !strings.Contains(why, "it is introspected") {
					t.Errorf("in-use: %d commands in %d steps, and list says %q\n%s", w.count("off", "n1"), steps, why, w.story())
				}
				if row.back {
					w.wake("n1")
				} else {
					w.fault("n1", "")
				}
				w.comesTo("n1", row.ended)
				if took := w.count("off", "n1"); (took > 0) == row.back {
					t.Errorf("in-use: %d commands when it was over\n%s", took, w.story())
				}
				w.fault("n1", "")
				w.wake("n1")
				w.recovers()
			})
		})
	}
}
