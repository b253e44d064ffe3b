package firewall

import (
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/doors"
)

// unheardFormerMembers says which members of the history before this one may still have a door
// open, "" if all were heard under this leadership. The wait for doors begins again
// when the last one was: its kernel may keep open until then what its peer left.
func (w *watch) unheardFormerMembers(v fsm.View) (why string) {
	if names := v.AwaitedFormers(); names != "" {
		return names + " not heard by this leader since the cluster was founded again by a restore or recovery"
	}
	for _, door := range [...]doors.Door{v.PassDoor(), v.AddressDoor()} {
		if door.Unknown && door.Since > w.others.heard {
			w.others = others{began: time.Now(), heard: door.Since}
		}
	}
	return ""
}
