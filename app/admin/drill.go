package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
)

// PathPeerDrill is where peers ask each other to look on while leadership moves,
// and one tells the leader to give it up.
const PathPeerDrill = "/peer/v1/drill"

// DrillLimit bounds a drill, the return of what was killed included.
const DrillLimit = 90 * time.Second

// watchMost bounds for how long a peer looks on.
const watchMost = 30 * time.Second

// DrillOrder says what is practised.
type DrillOrder struct {
	Kill               bool `json:"kill"`                // end the leader's process, with nothing handed on
	WithIntrospections bool `json:"with_introspections"` // also while machines are introspected
}

// DrillReport is what a drill showed.
type DrillReport struct {
	Kind       string     `json:"kind"` // transfer or kill
	OldLeader  string     `json:"old_leader"`
	NewLeader  string     `json:"new_leader"`
	OK         bool       `json:"ok"` // every row is
	Rows       []DrillRow `json:"rows"`
	ReturnedMS int64      `json:"returned_ms,omitempty"` // until one more may be lost again, after a kill
}

// DrillRow is for how long something was away, as one peer saw it or, for PXE,
// all of them together.
type DrillRow struct {
	What      string `json:"what"` // API, floating IP, PXE or return
	From      string `json:"from"`
	LongestMS int64  `json:"longest_ms"`
	BoundMS   int64  `json:"bound_ms"`
	OK        bool   `json:"ok"`
	Note      string `json:"note,omitempty"` // why there is no figure
}

// Span is a time in milliseconds since a peer began to look on.
type Span struct {
	FromMS int64 `json:"from_ms"`
	ToMS   int64 `json:"to_ms"`
}

// Outlook is what one peer saw while it looked on.
type Outlook struct {
	LookedMS  int64  `json:"looked_ms"`
	Guards    bool   `json:"guards"`     // it has a door to guard
	Door      []Span `json:"door"`       // when its own was open
	APIMS     int64  `json:"api_ms"`     // longest time without a linearizable read
	HasFloat  bool   `json:"has_float"`  // a floating IP is configured
	AddressMS int64  `json:"address_ms"` // longest time in which no host took connections there
}

// Drill practises the loss of the leader.
type Drill interface {
	// Drill has leadership moved and returns what all peers saw of it.
	Drill(ctx context.Context, o DrillOrder) (DrillReport, error)
	// Look looks on for a while.
	Look(ctx context.Context, d time.Duration) Outlook
	// Strike gives this peer's leadership up, or ends its process.
	Strike(ctx context.Context, kill bool) error
}

// DrillHandler answers other peers. Let members through to it alone.
func DrillHandler(d Drill) http.Handler {
	e := api.NewEcho()
	e.GET(PathPeerDrill, func(ctx echo.Context) error {
		looking, err := time.ParseDuration(ctx.QueryParam("for"))
		if err != nil || looking <= 0 || looking > watchMost {
			return &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: "for: a time of at most " + watchMost.String() + " is wanted"}
		}
		return ctx.JSON(http.StatusOK, d.Look(ctx.Request().Context(), looking))
	})
	e.POST(PathPeerDrill, func(ctx echo.Context) error {
		if err := d.Strike(ctx.Request().Context(), ctx.QueryParam("kill") == "1"); err != nil {
			return err
		}
		return ctx.JSON(http.StatusOK, struct{}{})
	})
	return e
}

func (c *Control) drill(ctx echo.Context) error {
	var in DrillOrder
	if err := body(ctx, &in); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx.Request().Context(), DrillLimit)
	defer cancel()
	report, err := c.Drill.Drill(limited, in)
	if err != nil {
		return err
	}
	return ctx.JSON(http.StatusOK, report)
}
