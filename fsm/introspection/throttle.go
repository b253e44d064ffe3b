package introspection

import (
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/fsm/entry"
)

// MaxGap is the longest time between two turns.
const MaxGap = time.Hour

// throttle spaces out the turns of all workers.
type throttle struct {
	Next entry.Time `cbor:"1,keyasint,omitempty"` // when the next turn may be taken at the earliest
}

// TakeTurn reserves the next turn of the one throttle of the cluster, at least
// Gap after the turn before: power-ons are spaced out by it (reboot throttle).
// Its Value is a Turn. A turn that is not used is lost, not given on; one that
// would come after the node's introspection has timed out is Refused and not
// taken: a site that is started all at once would else use up the turns of the
// hours to come, and everything started in them would time out as well.
type TakeTurn struct {
	Claim Hold          `cbor:"1,keyasint"`
	Gap   time.Duration `cbor:"2,keyasint"` // to the turn after this one, at most MaxGap
}

// Turn says when a reserved turn comes.
type Turn struct {
	Wait time.Duration `cbor:"1,keyasint"` // from the cluster time of the entry
}

// Validate implements Command.
func (c TakeTurn) Validate() error {
	if c.Gap <= 0 || c.Gap > MaxGap {
		return fmt.Errorf("two turns lie up to %v apart, not %v", MaxGap, c.Gap)
	}
	return nil
}

// Apply implements entry.Change.
func (c TakeTurn) Apply(t Txn) entry.Result {
	claim, _, ok := t.held(c.Claim)
	if !ok {
		return lost(c.Claim)
	}
	at := max(t.Now(), t.throttle.Next)
	if rec, _ := t.nodes.records.Get([]byte(claim.Node)); !at.Before(rec.Deadline) {
		return entry.Refuse(entry.Refused, "the next turn comes in %v, after the introspection of node %s has timed out",
			at.Sub(t.Now()), claim.Node)
	}
	t.throttle.Next = at.Add(c.Gap)
	return entry.Answer(Turn{Wait: at.Sub(t.Now())})
}
