package admin

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/fsm"
)

// pathDryRun is the group of the same routes that only say what they would change. It is
// a path of its own, for a daemon of v0.2.0, which may still run when the command is newer:
// it would carry out a route whose parameter it does not know.
const pathDryRun = "/dry-run"

// Planned is what a dry run would change, before and after: the tables of the log that
// differ, or the lines of a configuration.
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

// dryRun makes the routes below pathDryRun say what they would change.
func dryRun(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !strings.HasPrefix(c.Path(), "/v1"+pathDryRun+"/") {
			return next(c)
		}
		r := c.Request()
		c.SetRequest(r.WithContext(context.WithValue(r.Context(), dryKey{}, true)))
		err := next(c)
		var plan *plannedError
		switch {
		case errors.As(err, &plan):
			return c.JSON(http.StatusOK, plan.Planned)
		case err == nil: // the route found nothing to do, and serve has answered nothing
			return c.JSON(http.StatusOK, Planned{})
		}
		return err
	}
}

// plan is what commits commands, one after the other, in a dry run: the same rules judge
// them, and no entry is made.
func plan(ctx context.Context, read func(context.Context) (fsm.View, error), wall time.Time,
	commands ...fsm.Command) error {
	v, err := read(ctx)
	if err != nil {
		return err
	}
	would := v
	for _, c := range commands { // few
		if would, _, err = fsm.Would(would, c, wall.UnixMilli()); err != nil {
			return err
		}
	}
	var out plannedError
	if out.Before, out.After, err = fsm.Differences(v, would); err != nil {
		return err
	}
	return &out
}
