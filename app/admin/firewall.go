package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/inspector"
)

// Filter is the PXE filter of this host. Neither method blocks or needs a
// quorum.
type Filter interface {
	Firewall() api.Firewall
	// Explain refuses what is no MAC.
	Explain(mac string) (api.Explanation, error)
}

// Others are the other members of the cluster.
type Others interface {
	// Ask sends them all a GET of a path on the peers' port and returns what
	// they say, each within the time of ctx or, if that is not bounded, a time
	// of its own.
	Ask(ctx context.Context, path string) []Answer
}

// Answer is what one peer said, or why it said nothing.
type Answer struct {
	Name, ID string
	Body     []byte
	Err      error
}

// PathPeerFirewall is where peers ask each other about their filters.
const PathPeerFirewall = "/peer/v1/firewall"

// explain is below both the operators' and the peers' path.
const explain = "/explain/"

// FilterHandler answers other peers. Let members through to it alone.
func FilterHandler(f Filter) http.Handler {
	e := api.NewEcho()
	e.GET(PathPeerFirewall, func(ctx echo.Context) error { return ctx.JSON(http.StatusOK, f.Firewall()) })
	e.GET(PathPeerFirewall+explain+":mac", func(ctx echo.Context) error {
		x, err := f.Explain(ctx.Param("mac"))
		if err != nil {
			return err
		}
		return ctx.JSON(http.StatusOK, x)
	})
	return e
}

func (c *Control) firewall(ctx echo.Context) error {
	own := c.Filter.Firewall()
	own.Self = true
	rows := []api.Firewall{own}
	if everywhere(ctx) {
		rows = gather(ctx, c.Others, PathPeerFirewall, rows, func(a Answer) api.Firewall {
			return api.Firewall{Peer: a.Name, ID: a.ID, Error: a.Err.Error()}
		})
	}
	slices.SortFunc(rows, func(a, b api.Firewall) int { return cmp.Or(cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.ID, b.ID)) })
	return ctx.JSON(http.StatusOK, rows)
}

// explain explains a machine, which is named by a MAC, or by the UUID or name of
// its node; then each of its MACs is explained.
func (c *Control) explain(ctx echo.Context) error {
	ref := ctx.Param("machine")
	own, err := c.Filter.Explain(ref)
	if err == nil {
		node := inspector.NodeAt(c.Log.View(), own.MAC)
		named := c.naming(ctx.Request().Context(), node)
		rows := c.explanations(ctx, own)
		return ctx.JSON(http.StatusOK, withNode(rows, named()))
	}
	if strings.ContainsRune(ref, ':') { // which no name has
		return err
	}
	named, macs, err := c.macsOf(ctx.Request().Context(), ref)
	if err != nil {
		return err
	}
	rows := []api.Explanation{}
	for _, mac := range macs {
		if own, err = c.Filter.Explain(mac); err != nil {
			return err
		}
		rows = append(rows, c.explanations(ctx, own)...)
	}
	return ctx.JSON(http.StatusOK, withNode(rows, named))
}

// explanations are those of one MAC: the own one and, if the caller asks for
// them, those of the other peers.
func (c *Control) explanations(ctx echo.Context, own api.Explanation) []api.Explanation {
	own.Self = true
	rows := []api.Explanation{own}
	if everywhere(ctx) {
		rows = gather(ctx, c.Others, PathPeerFirewall+explain+url.PathEscape(own.MAC), rows, func(a Answer) api.Explanation {
			return api.Explanation{Peer: a.Name, ID: a.ID, MAC: own.MAC, Error: a.Err.Error()}
		})
	}
	slices.SortFunc(rows, func(a, b api.Explanation) int { return cmp.Or(cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.ID, b.ID)) })
	return rows
}

// everywhere reports whether the other peers are to be asked, too.
func everywhere(ctx echo.Context) bool { return ctx.QueryParam("all") == "1" }

// gather adds what the other peers say to rows; for one that says nothing it
// adds what silent returns.
func gather[T any](ctx echo.Context, others Others, path string, rows []T, silent func(Answer) T) []T {
	for _, a := range others.Ask(ctx.Request().Context(), path) {
		var row T
		if a.Err == nil {
			if err := json.Unmarshal(a.Body, &row); err != nil {
				a.Err = fmt.Errorf("decode response from %s: %w", a.Name, err)
			}
		}
		if a.Err != nil {
			row = silent(a)
		}
		rows = append(rows, row)
	}
	return rows
}
