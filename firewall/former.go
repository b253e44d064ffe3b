package firewall

import (
	"time"

	"github.com/trivet-ha/trivet/fsm"
)

// former says which members of the history before this one may still have a door
// open, "" if all were heard. The wait for doors begins again when the last one is:
// its kernel may keep open until then what its peer left.
func (w *watch) former(v fsm.View) (why string) {
	if names := v.AwaitedFormers(); names != "" {
		w.awaits = true
		return names + " not heard since the cluster was founded again by a restore or recovery"
	}
	if w.awaits {
		w.awaits, w.began = false, time.Now()
	}
	return ""
}
