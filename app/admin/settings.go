package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/settings"
)

// Setting is one replicated setting.
type Setting struct {
	Key   string        `json:"key"`
	Value string        `json:"value"`
	Token fencing.Token `json:"token,omitempty"` // of the write, in an answer to one
}

func listSettings(v fsm.View, _ echo.Context) ([]Setting, error) {
	out := []Setting{}
	for _, one := range v.Settings() {
		out = append(out, Setting{Key: one.Key, Value: one.Value})
	}
	return out, nil
}

func setting(v fsm.View, c echo.Context) (Setting, error) {
	one, ok := v.Setting(c.Param("key"))
	if !ok {
		return Setting{}, &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound,
			Message: fmt.Sprintf("setting %q does not exist", c.Param("key"))}
	}
	return Setting{Key: one.Key, Value: one.Value}, nil
}

// ownSettings begins the keys that operators may write. Trivet itself keeps nothing
// among the settings: what it acts on is validated by the domain of its own.
const ownSettings = "user."

func (s *State) putSetting(_ context.Context, c echo.Context, in Setting) (Setting, error) {
	if key := c.Param("key"); !strings.HasPrefix(key, ownSettings) {
		return Setting{}, invalid("a setting's key begins with %q: %s%s", ownSettings, ownSettings, key)
	}
	res, err := s.do(c, settings.PutSetting{Key: c.Param("key"), Value: in.Value})
	return Setting{Key: c.Param("key"), Value: in.Value, Token: res.Token}, err
}
