package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/leases"
)

// headerFencing names the lease and the token that a write is made under, as
// NAME:TOKEN.
const headerFencing = "Fencing-Token"

// conditionOf reads what must hold for a write: the headers Fencing-Token, If-Match
// with a version, or If-None-Match: * for what must not exist.
func conditionOf(h http.Header) (when leases.Condition, err error) {
	if text := h.Get(headerFencing); text != "" {
		name, number, ok := strings.Cut(text, ":")
		if !ok {
			return when, refuse(http.StatusBadRequest, badRequest+"%s is LEASE:TOKEN, not %q", headerFencing, text)
		}
		if when.Token, err = tokenOf(headerFencing, number, true); err != nil {
			return when, err
		}
		when.Lease = name
	}
	match, none := h.Get("If-Match"), h.Get("If-None-Match")
	switch {
	case match != "" && none != "":
		return when, refuse(http.StatusBadRequest, badRequest+"If-Match and If-None-Match contradict each other")
	case match != "":
		when.Compare = true
		if when.Version, err = tokenOf("If-Match", strings.Trim(match, `"`), true); err == nil && when.Version.IsZero() {
			err = refuse(http.StatusBadRequest,
				badRequest+"no value has version 0; for one that must not exist say If-None-Match: *")
		}
	case none == "*":
		when.Compare = true
	case none != "":
		err = refuse(http.StatusBadRequest, badRequest+"If-None-Match is * or absent, not %q", none)
	case when.Lease == "":
		err = refuse(http.StatusPreconditionRequired,
			"A write names the lease that it is made under, %s: LEASE:TOKEN, or the version that it replaces, If-Match",
			headerFencing)
	}
	return when, err
}

func (l lendingAPI) putValue(c echo.Context) error {
	when, err := conditionOf(c.Request().Header)
	if err != nil {
		return err
	}
	return withBody(l.documents, leases.MaxValue, func(ctx context.Context, c echo.Context, body []byte) error {
		key, request := c.Param("key"), query(c).Get("request_id")
		version, err := l.lending.Put(ctx, key, body, when, request)
		if err != nil {
			return named(err, request)
		}
		c.Response().Header().Set("ETag", quoted(version))
		return replyValue(c, http.StatusOK, map[string]any{"key": key, "version": version})
	})(c)
}

func (l lendingAPI) removeValue(ctx context.Context, c echo.Context) error {
	when, err := conditionOf(c.Request().Header)
	if err != nil {
		return err
	}
	return l.lending.Remove(ctx, c.Param("key"), when)
}

// octetType is the type of a value, whose format only its writer knows.
var octetType = []string{"application/octet-stream"}

func (l lendingAPI) showValue(ctx context.Context, c echo.Context) error {
	v, err := l.lending.Value(ctx, c.Param("key"), l.reading(c))
	if err != nil {
		return err
	}
	h := c.Response().Header()
	h.Set("ETag", quoted(v.Version))
	h.Set("X-Content-Type-Options", "nosniff")
	if v.Lease != "" {
		h.Set(headerFencing, v.Lease+":"+v.Token.String())
	}
	return reply(c, http.StatusOK, octetType, v.Data)
}

func (l lendingAPI) listValues(ctx context.Context, c echo.Context) (any, error) {
	q := query(c)
	limit, err := pageLimit(q)
	if err != nil {
		return nil, err
	}
	all, err := l.lending.Values(ctx, q.Get("prefix"), q.Get("marker"), l.reading(c))
	if err != nil {
		return nil, err
	}
	page, more, err := pageOf(all, limit, func(v leases.Value) listedValue {
		return listedValue{Bytes: len(v.Data), Key: v.Key, Lease: v.Lease, Version: v.Version}
	})
	return map[string]any{"more": more, "values": page}, err
}

// listedValue is a value without its data, as lists show it.
type listedValue struct {
	Bytes   int           `json:"bytes"`
	Key     string        `json:"key"`
	Lease   string        `json:"lease"`
	Version fencing.Token `json:"version"`
}
