package admin

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/internal/pace"
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
type Drill struct {
	*Here
	Members *Membership
	Quorum  func() api.Quorum
	// Door reports whether this host's door is open; nil: it has none to guard.
	Door     func() bool
	HasFloat bool   // a floating IP is configured
	Address  string // host:port of the API there; "": there is none
	Exit     func(code int, why error)
}

func (d *Drill) routes(g *echo.Group) {
	g.POST("/drill", serve(http.StatusOK, DrillLimit,
		func(ctx context.Context, _ echo.Context, in DrillOrder) (DrillReport, error) { return d.Run(ctx, in) }))
}

// peerRoutes answer other peers.
func (d *Drill) peerRoutes(e *echo.Echo) {
	e.GET(PathPeerDrill, serve(http.StatusOK, DrillLimit,
		func(ctx context.Context, c echo.Context, _ none) (Outlook, error) {
			looking, err := time.ParseDuration(c.QueryParam("for"))
			if err != nil || looking <= 0 || looking > watchMost {
				return Outlook{}, invalid("for: a time of at most %v is wanted", watchMost)
			}
			return d.Look(ctx, looking), nil
		}))
	e.POST(PathPeerDrill, get(func(ctx context.Context, c echo.Context) (struct{}, error) {
		return struct{}{}, d.Strike(ctx, c.QueryParam("kill") == "1")
	}))
}

// How a peer looks on: so often it asks, and for so long it waits for one answer.
const (
	lookEvery   = 20 * time.Millisecond
	lookTimeout = 200 * time.Millisecond
)

// Look looks on for a while: three questions are asked again and again, each by
// itself, so that one that hangs delays no other.
func (d *Drill) Look(ctx context.Context, looking time.Duration) Outlook {
	ctx, cancel := context.WithTimeout(ctx, looking)
	defer cancel()
	began := time.Now()
	out := Outlook{Guards: d.Door != nil, HasFloat: d.HasFloat}
	var work sync.WaitGroup
	work.Go(func() {
		out.APIMS = longestVain(ctx, func(ctx context.Context) error {
			_, err := d.Store.Read(ctx)
			return err
		}).Milliseconds()
	})
	if d.Address != "" {
		connect := func(ctx context.Context) error {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", d.Address)
			if err != nil {
				return err
			}
			return conn.Close()
		}
		work.Go(func() { out.AddressMS = longestVain(ctx, connect).Milliseconds() })
	}
	work.Go(func() { out.Door = d.doorOpen(ctx, began) })
	work.Wait()
	out.LookedMS = time.Since(began).Milliseconds()
	return out
}

// longestVain asks until ctx ends and returns the longest time from a question
// that was in vain to the next answer.
func longestVain(ctx context.Context, ask func(ctx context.Context) error) (longest time.Duration) {
	var since time.Time
	for range pace.Every(ctx, lookEvery) {
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, lookTimeout)
		err := ask(limited)
		cancel()
		if ctx.Err() != nil {
			return longest // what was asked last had no time to answer
		}
		if err != nil && since.IsZero() {
			since = began
		}
		if !since.IsZero() {
			longest = max(longest, time.Since(since))
		}
		if err == nil {
			since = time.Time{}
		}
	}
	return longest
}

// doorOpen returns when this host's door was open, since began.
func (d *Drill) doorOpen(ctx context.Context, began time.Time) []Span {
	spans := []Span{}
	if d.Door == nil {
		return spans
	}
	open := false
	for range pace.Every(ctx, lookEvery) {
		now := time.Since(began).Milliseconds()
		is := d.Door()
		if is && !open {
			spans = append(spans, Span{FromMS: now})
		}
		if open {
			spans[len(spans)-1].ToMS = now
		}
		open = is
	}
	return spans
}
