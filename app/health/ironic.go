package health

import (
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// IronicAway is a reason not to lead: the leader's sweeps and relays need Ironic, and another
// peer reaches it.
func IronicAway(ironic *ironic.Reach, v fsm.View, self string) error {
	if ironic == nil || !ironicElsewhere(v, self) {
		return nil
	}
	return ironic.Lasting()
}

// ironicElsewhere reports whether another peer with a live session reaches
// Ironic, as far as this peer's state tells.
func ironicElsewhere(v fsm.View, self string) bool {
	for _, s := range v.Sessions() {
		if s.Peer != self && s.Applied > 0 && !s.NoIronic { // a session that was never renewed says nothing yet
			return true
		}
	}
	return false
}
