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
	"github.com/trivet-ha/trivet/inspector/identify"
)

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

// heard is below both the operators' and the peers' path.
const heard = "/heard"

// heard lists the machines that asked to boot and are not under introspection.
func (h *Host) heard(ctx echo.Context) error {
	own := h.Heard()
	own.Self = true
	rows := []api.Heard{own}
	if everywhere(ctx) {
		rows = gather(ctx, h.Ask, PathPeerFirewall+heard, rows, func(a Answer) api.Heard {
			return api.Heard{Peer: a.Name, ID: a.ID, Error: a.Err.Error()}
		})
	}
	slices.SortStableFunc(rows, func(a, b api.Heard) int {
		return cmp.Or(cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.ID, b.ID))
	})
	return ctx.JSON(http.StatusOK, rows)
}

func (h *Host) firewall(ctx echo.Context) error {
	own := h.Firewall()
	own.Self = true
	rows := []api.Firewall{own}
	if everywhere(ctx) {
		rows = gather(ctx, h.Ask, PathPeerFirewall, rows, func(a Answer) api.Firewall {
			return api.Firewall{Peer: a.Name, ID: a.ID, Error: a.Err.Error()}
		})
	}
	slices.SortStableFunc(rows, func(a, b api.Firewall) int {
		return cmp.Or(cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.ID, b.ID))
	})
	return ctx.JSON(http.StatusOK, rows)
}

// explain explains a machine, which is named by a MAC, or by the UUID or name of
// its node; then each of its MACs is explained.
func (h *Host) explain(ctx echo.Context) error {
	ref := ctx.Param("machine")
	own, err := h.Explain(ref)
	if err == nil {
		node := identify.NodeAt(h.View(), own.MAC)
		named := h.naming(ctx.Request().Context(), node)
		rows := h.explanations(ctx, own)
		return ctx.JSON(http.StatusOK, withNode(rows, named()))
	}
	if strings.ContainsRune(ref, ':') { // which no name has
		return err
	}
	named, macs, err := h.macsOf(ctx.Request().Context(), ref)
	if err != nil {
		return err
	}
	rows := []api.Explanation{}
	for _, mac := range macs {
		if own, err = h.Explain(mac); err != nil {
			return err
		}
		rows = append(rows, h.explanations(ctx, own)...)
	}
	return ctx.JSON(http.StatusOK, withNode(rows, named))
}

// explanations are those of one MAC: the own one and, if the caller asks for
// them, those of the other peers.
func (h *Host) explanations(ctx echo.Context, own api.Explanation) []api.Explanation {
	own.Self = true
	rows := []api.Explanation{own}
	if everywhere(ctx) {
		rows = gather(ctx, h.Ask, PathPeerFirewall+explain+url.PathEscape(own.MAC), rows, func(a Answer) api.Explanation {
			return api.Explanation{Peer: a.Name, ID: a.ID, MAC: own.MAC, Error: a.Err.Error()}
		})
	}
	slices.SortStableFunc(rows, func(a, b api.Explanation) int {
		return cmp.Or(cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.ID, b.ID))
	})
	return rows
}

// everywhere reports whether the other peers are to be asked, too.
func everywhere(ctx echo.Context) bool { return ctx.QueryParam("all") == "1" }

// gather adds what the other peers say to rows; for one that says nothing it
// adds what silent returns.
func gather[T any](ctx echo.Context, ask func(context.Context, string) []Answer, path string, rows []T,
	silent func(Answer) T) []T {
	for _, a := range ask(ctx.Request().Context(), path) {
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
