package admin

import (
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
)

// Setting is one replicated setting.
type Setting struct {
	Key   string        `json:"key"`
	Value string        `json:"value"`
	Token fencing.Token `json:"token,omitempty"` // of the write, in an answer to one
}

func (c *Control) settings(ctx echo.Context) error {
	v, err := c.read(ctx)
	if err != nil {
		return err
	}
	out := []Setting{}
	for _, s := range v.Settings() {
		out = append(out, Setting{Key: s.Key, Value: s.Value})
	}
	return ctx.JSON(http.StatusOK, out)
}

func (c *Control) setting(ctx echo.Context) error {
	v, err := c.read(ctx)
	if err != nil {
		return err
	}
	s, ok := v.Setting(ctx.Param("key"))
	if !ok {
		return &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound, Message: fmt.Sprintf("setting %q does not exist", ctx.Param("key"))}
	}
	return ctx.JSON(http.StatusOK, Setting{Key: s.Key, Value: s.Value})
}

func (c *Control) putSetting(ctx echo.Context) error {
	var in Setting
	if err := body(ctx, &in); err != nil {
		return err
	}
	res, err := c.do(ctx, fsm.PutSetting{Key: ctx.Param("key"), Value: in.Value})
	if err != nil {
		return err
	}
	return ctx.JSON(http.StatusOK, Setting{Key: ctx.Param("key"), Value: in.Value, Token: res.Token})
}

func (c *Control) deleteSetting(ctx echo.Context) error {
	if _, err := c.do(ctx, fsm.DeleteSetting{Key: ctx.Param("key")}); err != nil {
		return err
	}
	return ctx.NoContent(http.StatusNoContent)
}
