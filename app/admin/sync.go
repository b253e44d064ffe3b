package admin

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/inspector"
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
}

func syncOf(v fsm.View, _ echo.Context) (Sync, error) {
	s, ok := inspector.SuspicionOf(v)
	confirmed, _ := v.Setting(inspector.SettingSyncConfirmed)
	return Sync{
		Suspected: ok, Reason: s.Reason, Missing: s.Missing, Known: s.Known, Digest: s.Digest,
		Confirmed: s.Digest != "" && confirmed.Value == s.Digest,
	}, nil
}

// confirmSync lets the leader believe the list that misses just the nodes that
// the caller was shown.
func (s *State) confirmSync(ctx context.Context, c echo.Context, in Sync) error {
	v, err := s.Log.Read(ctx)
	if err != nil {
		return err
	}
	if now, _ := syncOf(v, c); in.Digest == "" || now.Digest != in.Digest {
		return conflict("look again: 'trivet node sync'", "Ironic's list is not the one that was shown, or cannot be confirmed")
	}
	_, err = s.do(c, fsm.PutSetting{Key: inspector.SettingSyncConfirmed, Value: in.Digest})
	return err
}
