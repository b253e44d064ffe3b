package admin

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/nodesync"
)

// Sync is how the synchronisation with Ironic stands.
type Sync struct {
	Suspected bool   `json:"suspected"` // nothing is deleted for the time being
	Reason    string `json:"reason,omitempty"`
	Missing   int    `json:"missing"` // nodes with a record that Ironic did not list
	Known     int    `json:"known"`   // nodes with a record
	// Digest names the missing nodes; empty when there is nothing to confirm.
	Digest    string `json:"digest,omitempty"`
	Confirmed bool   `json:"confirmed"` // the leader acts on it at its next round
	// Ports says the same of the list of ports, whose MACs are the blacklist; nil if it is believed.
	Ports *Sync `json:"ports,omitempty"`
}

func syncOf(v fsm.View, _ echo.Context) (Sync, error) {
	out := suspected(v.SyncSuspicion())
	if s, ok := v.PortSuspicion(); ok {
		ports := suspected(s, ok)
		out.Ports = &ports
	}
	return out, nil
}

func suspected(s nodesync.Suspicion, ok bool) Sync {
	return Sync{Suspected: ok, Reason: s.Reason, Missing: s.Missing, Known: s.Known, Digest: s.Digest,
		Confirmed: s.Confirmed}
}

// confirmSync lets the leader believe the list that misses just the nodes, or the
// ports, that the caller was shown: the entry itself compares them.
func (s *State) confirmSync(_ context.Context, c echo.Context, in Sync) error {
	if in.Digest == "" {
		return conflict("look again: 'trivet node sync'", "there is nothing to confirm")
	}
	_, err := s.do(c, nodesync.Confirm{Digest: in.Digest})
	return err
}
