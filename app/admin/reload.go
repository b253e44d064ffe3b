package admin

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"
)

// Reloader makes this peer read its configuration again. A configuration that
// will not do is an *Error with all that is wrong, and changes nothing.
type Reloader interface {
	Reload(ctx context.Context) (Reloaded, error)
}

// Reloaded is what became of a configuration that was read again: the keys whose
// values have changed since the last time.
type Reloaded struct {
	Applied []string `json:"applied"` // they count now
	// Restart are the keys that count from the next start of this peer. They stay
	// here, and in the peer's status, until then, or until they are changed back.
	Restart  []string `json:"restart"`
	Together []string `json:"together,omitempty"` // why none is applied although some could be
	Warnings []string `json:"warnings,omitempty"` // what deserves a second look
}

func (c *Control) reload(ctx echo.Context) error {
	done, err := c.Reloader.Reload(ctx.Request().Context())
	if err != nil {
		return err
	}
	return ctx.JSON(http.StatusOK, done)
}
