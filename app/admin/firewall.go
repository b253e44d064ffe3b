package admin

import (
	"cmp"
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
	return ctx.JSON(http.StatusOK, gather(ctx, h, PathPeerFirewall+heard, own,
		func(a Answer) api.Heard { return api.Heard{Peer: a.Name, ID: a.ID, Error: a.Err.Error()} },
		func(row api.Heard) (peer, id string) { return row.Peer, row.ID }))
}

func (h *Host) firewall(ctx echo.Context) error {
	own := h.Firewall()
	own.Self = true
	return ctx.JSON(http.StatusOK, gather(ctx, h, PathPeerFirewall, own,
		func(a Answer) api.Firewall { return api.Firewall{Peer: a.Name, ID: a.ID, Error: a.Err.Error()} },
		func(row api.Firewall) (peer, id string) { return row.Peer, row.ID }))
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
	return gather(ctx, h, PathPeerFirewall+explain+url.PathEscape(own.MAC), own, func(a Answer) api.Explanation {
		return api.Explanation{Peer: a.Name, ID: a.ID, MAC: own.MAC, Error: a.Err.Error()}
	}, func(row api.Explanation) (peer, id string) { return row.Peer, row.ID })
}

// everywhere reports whether the other peers are to be asked, too.
func everywhere(ctx echo.Context) bool { return ctx.QueryParam("all") == "1" }

// gather returns the own row and, if the caller asks for them, those of the other peers, by the names of these;
// for one that says nothing there is what silent returns.
func gather[T any](ctx echo.Context, h *Host, path string, own T, silent func(Answer) T,
	of func(T) (peer, id string)) []T {
	rows := []T{own}
	if everywhere(ctx) {
		for _, a := range h.Ask(ctx.Request().Context(), path) {
			var row T
			if a.decode(&row); a.Err != nil {
				row = silent(a)
			}
			rows = append(rows, row)
		}
	}
	byPeer(rows, of)
	return rows
}

// decode reads what the peer said, unless it said nothing.
func (a *Answer) decode(into any) {
	if a.Err != nil {
		return
	}
	if err := json.Unmarshal(a.Body, into); err != nil {
		a.Err = fmt.Errorf("decode response from %s: %w", a.Name, err)
	}
}

// byPeer sorts rows by the names of their peers, and those of one name by server ID.
func byPeer[T any](rows []T, of func(T) (peer, id string)) {
	slices.SortStableFunc(rows, func(a, b T) int {
		peer, id := of(a)
		other, otherID := of(b)
		return cmp.Or(cmp.Compare(peer, other), cmp.Compare(id, otherID))
	})
}
