package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/fsm"
)

// pathDryRun is the group of the same routes that only say what they would change. It is
// a path of its own, for a daemon of v0.2.0, which may still run when the command is newer:
// it would carry out a route whose parameter it does not know.
const pathDryRun = "/dry-run"

// Planned is what a dry run would change: the tables of the members before and after.
type Planned struct {
	Before string `json:"before"`
	After  string `json:"after"`
}

// plannedError ends a dry run where the command would have been committed: it keeps the
// steps that follow from being done.
type plannedError struct{ Planned }

// Error implements error.
func (*plannedError) Error() string { return "nothing is changed by a dry run" }

type dryKey struct{}

// isDry reports whether a request is a dry run.
func isDry(ctx context.Context) bool { return ctx.Value(dryKey{}) != nil }

// dryRun makes the routes of a group say what they would change.
func dryRun(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		c.SetRequest(r.WithContext(context.WithValue(r.Context(), dryKey{}, true)))
		err := next(c)
		var plan *plannedError
		switch {
		case errors.As(err, &plan):
			return c.JSON(http.StatusOK, plan.Planned)
		case err == nil: // the route found nothing to do
			return c.JSON(http.StatusOK, Planned{})
		}
		return err
	}
}

// plan is commit in a dry run: the same rules judge the command, and no entry is made.
func (h *Here) plan(ctx context.Context, c fsm.Command) error {
	v, err := h.Store.Read(ctx)
	if err != nil {
		return err
	}
	would, err := fsm.Would(v, c, h.Wall().UnixMilli())
	if err != nil {
		return err
	}
	var out plannedError
	if out.Before, err = fsm.Told(v); err != nil {
		return err
	}
	if out.After, err = fsm.Told(would); err != nil {
		return err
	}
	return &out
}
