package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
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

func (c *Control) sync(ctx echo.Context) error {
	v, err := c.read(ctx)
	if err != nil {
		return err
	}
	return ctx.JSON(http.StatusOK, syncOf(v))
}

func syncOf(v fsm.View) Sync {
	s, ok := inspector.SuspicionOf(v)
	confirmed, _ := v.Setting(inspector.SettingSyncConfirmed)
	return Sync{
		Suspected: ok, Reason: s.Reason, Missing: s.Missing, Known: s.Known, Digest: s.Digest,
		Confirmed: s.Digest != "" && confirmed.Value == s.Digest,
	}
}

// confirmSync lets the leader believe the list that misses just the nodes that
// the caller was shown.
func (c *Control) confirmSync(ctx echo.Context) error {
	var in Sync
	if err := body(ctx, &in); err != nil {
		return err
	}
	v, err := c.Log.Read(ctx.Request().Context())
	if err != nil {
		return err
	}
	if now := syncOf(v); in.Digest == "" || now.Digest != in.Digest {
		return &api.Error{Status: http.StatusConflict, Code: api.CodeConflict,
			Message: "Ironic's list is not the one that was shown, or cannot be confirmed", Hint: "look again: 'trivet node sync'"}
	}
	if _, err := c.do(ctx, fsm.PutSetting{Key: inspector.SettingSyncConfirmed, Value: in.Digest}); err != nil {
		return err
	}
	return ctx.NoContent(http.StatusNoContent)
}
