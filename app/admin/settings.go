package admin

import (
	"context"
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

func settings(v fsm.View, _ echo.Context) ([]Setting, error) {
	out := []Setting{}
	for _, one := range v.Settings() {
		out = append(out, Setting{Key: one.Key, Value: one.Value})
	}
	return out, nil
}

func setting(v fsm.View, c echo.Context) (Setting, error) {
	one, ok := v.Setting(c.Param("key"))
	if !ok {
		return Setting{}, &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound, Message: fmt.Sprintf("setting %q does not exist", c.Param("key"))}
	}
	return Setting{Key: one.Key, Value: one.Value}, nil
}

func (s *State) putSetting(_ context.Context, c echo.Context, in Setting) (Setting, error) {
	res, err := s.do(c, fsm.PutSetting{Key: c.Param("key"), Value: in.Value})
	return Setting{Key: c.Param("key"), Value: in.Value, Token: res.Token}, err
}
