package eventring

// Actions of the events that are derived from commands. They are part of the API.
const (
	ActionAcquired = "acquired" // leadership

	ActionOpened = "opened" // the PXE service
	ActionClosed = "closed"
	ActionTaken  = "taken"  // the floating IP
	ActionLapsed = "lapsed" // either: its holder was lost and its time ran out

	ActionJoined    = "joined" // a member
	ActionRemoved   = "removed"
	ActionConnected = "connected"
	ActionStopped   = "stopped"
	ActionLost      = "lost"
	ActionMoved     = "moved"

	ActionMaintenanceBegan = "maintenance-began"
	ActionMaintenanceEnded = "maintenance-ended"
	ActionDemoted          = "demoted"  // to an observer
	ActionPromoted         = "promoted" // to a voter

	ActionGranted   = "granted" // a lease
	ActionTakenOver = "taken-over"
	ActionReleased  = "released" // also the floating IP
	ActionExpired   = "expired"

	ActionCreated    = "created" // a rule
	ActionDeleted    = "deleted" // also a node's record
	ActionAllDeleted = "all-deleted"
	ActionImported   = "imported" // a node's record

	ActionChanged    = "changed"    // hardware of a machine
	ActionUnexpected = "unexpected" // it differs from what was ordered
	ActionExpected   = "expected"   // it does not any more

	ActionFound   = "found"   // what keeps a machine from coming up
	ActionCleared = "cleared" // it does not any more
)

// Fields makes the fields of an event from pairs of names and values, without the
// empty ones.
func Fields(pairs ...string) map[string]string {
	out := make(map[string]string, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out[pairs[i]] = Text(pairs[i+1])
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
