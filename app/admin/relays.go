package admin

import (
	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
)

// Relay is a ramdisk's data that is handed on to Ironic, or was.
type Relay struct {
	Sequence fencing.Token `json:"sequence"`
	Node     string        `json:"node,omitempty"` // not there if its node is not known
	State    string        `json:"state"`          // pending, taken or failed
	Tries    int           `json:"tries"`
	Reason   string        `json:"reason,omitempty"` // what Ironic said last, or what happened instead
	Accepted string        `json:"accepted"`
	Ended    string        `json:"ended,omitempty"`
	Document string        `json:"document"`
}

// listRelays lists them, the newest first.
func listRelays(v fsm.View, _ echo.Context) ([]Relay, error) {
	out := []Relay{}
	for r := range v.Relays() {
		out = append(out, Relay{
			Sequence: r.Sequence, Node: r.Node, State: r.State.String(), Tries: r.Tries, Reason: r.Reason,
			Accepted: wallTime(r.AcceptedMillis), Ended: wallTime(r.EndedMillis), Document: r.Document.String(),
		})
	}
	return out, nil
}
