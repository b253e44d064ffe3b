package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/lease"
)

// memberProof is what an instance shows to be one of its component.
type memberProof struct {
	Lease    string `json:"lease"`
	Token    token  `json:"token"`
	Metadata string `json:"metadata"`
}

// changeMember reads the proof from the body or, for clients that send none with DELETE, from
// the query.
func (l lendingAPI) changeMember(change func(context.Context, leases.GroupMember) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		var shown memberProof
		var err error
		if q := query(c); q.Has("token") {
			var t fencing.Token
			t, err = tokenOf("token", q.Get("token"), true)
			shown = memberProof{Lease: q.Get("lease"), Token: token(t)}
		} else {
			err = readJSON(c, l.documents, &shown)
		}
		if err != nil {
			return err
		}
		m := leases.GroupMember{Component: c.Param("component"), ID: c.Param("member"), Lease: shown.Lease,
			Token: fencing.Token(shown.Token), Metadata: shown.Metadata}
		return done(func(ctx context.Context, _ echo.Context) error { return change(ctx, m) })(c)
	}
}

// showGroup lists who is there, or with wait= and If-None-Match waits until it is
// not who the caller knows. The tag is that of all pages.
func (l lendingAPI) showGroup(ctx context.Context, c echo.Context) (any, error) {
	q, component := query(c), c.Param("component")
	limit, err := pageLimit(q)
	if err != nil {
		return nil, err
	}
	wait, err := waitOf(q)
	if err != nil {
		return nil, err
	}
	var g lease.Group
	if wait > 0 {
		if err := waits(ctx, admission.Stream); err != nil {
			return nil, err
		}
		g, err = l.lending.WatchGroup(ctx, component, unquoted(c.Request().Header.Get("If-None-Match")), wait)
		if err == nil {
			err = paced(ctx, time.Duration(min(limit, len(g.Members)))*memberCost, 0)
		}
	} else {
		g, err = l.lending.Group(ctx, component, l.reading(c))
	}
	if err != nil {
		return nil, err
	}
	c.Response().Header().Set("ETag", `"`+g.Tag()+`"`)
	page, more, err := pageOf(slices.Values(g.After(q.Get("marker"))), limit, shownMember)
	return map[string]any{"component": component, "index": g.Index, "members": page, "more": more}, err
}

// memberCost is what it costs to show a member of a group, at the least: all who watch one
// want it when it changes.
const memberCost = 5 * time.Microsecond

func unquoted(tag string) string {
	if n := len(tag); n >= 2 && tag[0] == '"' && tag[n-1] == '"' {
		return tag[1 : n-1]
	}
	return tag
}

// showOwner names the member that a key belongs to, and the index of the log at
// which that was so.
func (l lendingAPI) showOwner(ctx context.Context, c echo.Context) (any, error) {
	component, key := c.Param("component"), query(c).Get("key")
	if key == "" {
		return nil, refuse(http.StatusBadRequest, badRequest+"key is needed: whose owner is asked for")
	}
	g, err := l.lending.Group(ctx, component, l.reading(c))
	if err != nil {
		return nil, err
	}
	owner, ok := g.Owner(key)
	if !ok {
		return nil, refuse(http.StatusNotFound, "Component %s has no member", component)
	}
	return map[string]any{"index": g.Index, "owner": shownMember(owner)}, nil
}

// listedMember is a member of a group as answers show it.
type listedMember struct {
	ID       string        `json:"id"`
	Lease    string        `json:"lease"`
	Metadata string        `json:"metadata"`
	Token    fencing.Token `json:"token"`
}

func shownMember(m leases.GroupMember) listedMember {
	return listedMember{ID: m.ID, Lease: m.Lease, Metadata: m.Metadata, Token: m.Token}
}
