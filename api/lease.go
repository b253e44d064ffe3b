package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/lease"
)

// maxLeaseBody is the greatest length of what is said about a lease, in bytes.
const maxLeaseBody = 16 << 10

// lendingAPI answers the paths of docs/contract.md#leases, leases and what hangs on them.
type lendingAPI struct {
	lending   *lease.Service
	documents bodies
	reading   func(echo.Context) lease.Reading // how fresh an answer must be
}

// leaseResources are those paths. Who may not change introspections may change none of it.
func (i *Inspector) leaseResources(documents bodies) []resource {
	if i.Lending == nil {
		return nil
	}
	l := lendingAPI{i.Lending, documents, func(c echo.Context) lease.Reading { return i.reading(c) == inspector.Stale }}
	return []resource{
		{path: "/v1/leases", reader: true, cost: admission.Dear, get: leaseErrors(answering(l.listLeases))},
		{path: "/v1/leases/:lease", reader: true, cost: admission.Request, get: leaseErrors(timed(l.showLease)),
			put: leaseErrors(l.acquireLease), remove: leaseErrors(done(l.releaseLease))},
		{path: "/v1/leases/:lease/renew", shares: true, post: leaseErrors(l.renewLease)},
		{path: "/v1/kv", cost: admission.Dear, get: leaseErrors(answering(l.listValues))},
		{path: "/v1/kv/:key", cost: admission.Request, get: leaseErrors(timed(l.showValue)), put: leaseErrors(l.putValue),
			remove: leaseErrors(done(l.removeValue))},
		{path: "/v1/groups/:component", reader: true, cost: admission.Dear, get: leaseErrors(answering(l.showGroup))},
		{path: "/v1/groups/:component/owner", reader: true, cost: admission.Request,
			get: leaseErrors(answering(l.showOwner))},
		{path: "/v1/groups/:component/members/:member", put: leaseErrors(l.changeMember(l.lending.Join)),
			remove: leaseErrors(l.changeMember(l.lending.Leave))},
	}
}

// leaseErrors gives the refusals of h the statuses of docs/contract.md#leases. One that names who is
// in the way says so in its body.
func leaseErrors(h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := h(c)
		var held *lease.Held
		var asked *nameless
		switch {
		case errors.As(err, &held):
			return replyValue(c, http.StatusConflict, map[string]any{
				"error": errorText{Message: held.Error()}, "holder": held.Holder, "remaining_ms": held.Remaining.Milliseconds(),
				"token": held.Token,
			})
		case errors.As(err, &asked):
			c.Response().Header().Set("Retry-After", strconv.Itoa(retryAfterSeconds))
			return replyValue(c, http.StatusServiceUnavailable,
				map[string]any{"error": errorText{Message: asked.Error()}, "request_id": asked.request})
		case errors.Is(err, fsm.Expired):
			return refuse(http.StatusGone, "%v", err)
		case errors.Is(err, fsm.Fenced):
			return refuse(http.StatusPreconditionFailed, "%v", err)
		case errors.Is(err, fsm.TableFull):
			// The code tells it from the refusal of a proxy whose disk is full.
			return replyValue(c, http.StatusInsufficientStorage, map[string]any{"error": errorText{CodeTableFull, err.Error()}})
		}
		return err
	}
}

// errorText is what a refusal says.
type errorText struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
}

// nameless is a request that has no answer yet: the same again under its ID gets it.
type nameless struct {
	error
	request string
}

// Unwrap gives the cause.
func (n *nameless) Unwrap() error { return n.error }

// named has an error tell the ID under which to ask again, if that may help.
func named(err error, request string) error {
	if err == nil || request == "" || translate(err).Status != http.StatusServiceUnavailable {
		return err
	}
	return &nameless{err, request}
}

func (l lendingAPI) listLeases(ctx context.Context, c echo.Context) (any, error) {
	limit, err := pageLimit(query(c))
	if err != nil {
		return nil, err
	}
	all, err := l.lending.List(ctx, query(c).Get("marker"), l.reading(c))
	if err != nil {
		return nil, err
	}
	page, more, err := pageOf(all, limit, shownGrant)
	return map[string]any{"leases": page, "more": more}, err
}

// showLease reads a lease, or with wait= waits until it is not the one whose token
// after= names; free=1 says that this one is known to be over.
func (l lendingAPI) showLease(ctx context.Context, c echo.Context) error {
	wait, err := waitOf(query(c))
	if err != nil {
		return err
	}
	var g lease.Grant
	if wait > 0 {
		known := lease.Known{Free: query(c).Get("free") == "1"}
		if known.Token, err = tokenOf("after", query(c).Get("after"), false); err != nil {
			return err
		}
		if err := waits(ctx, admission.Stream); err != nil {
			return err
		}
		g, err = l.lending.Watch(ctx, c.Param("lease"), known, wait)
	} else {
		g, err = l.lending.Get(ctx, c.Param("lease"), l.reading(c))
	}
	if err != nil {
		return err
	}
	return replyGrant(c, http.StatusOK, g)
}

// acquisition is the body of a PUT. Other members are ignored.
type acquisition struct {
	Holder   string `json:"holder"`
	TTL      int64  `json:"ttl_ms"`
	Wait     int64  `json:"wait_ms"`
	Request  string `json:"request_id"`
	Takeover bool   `json:"takeover"`
	Metadata string `json:"metadata"`
}

func (l lendingAPI) acquireLease(c echo.Context) error {
	var a acquisition
	if err := readJSON(c, l.documents, &a); err != nil {
		return err
	}
	if a.Request == "" {
		a.Request = uuid.NewString() // a caller without an answer learns it from the error
	}
	ctx, cancel := limited(c)
	defer cancel()
	if a.Wait > 0 { // for another holder, and in no place of those who change something
		if err := waits(ctx, admission.Stream); err != nil {
			return named(err, a.Request)
		}
	}
	g, repeated, err := l.lending.Acquire(ctx, lease.Acquisition{
		Name: c.Param("lease"), Holder: a.Holder, TTL: millis(a.TTL), Wait: millis(a.Wait),
		Request: a.Request, Takeover: a.Takeover, Metadata: a.Metadata,
	})
	if err != nil {
		return named(err, a.Request)
	}
	if repeated {
		return replyGrant(c, http.StatusOK, g)
	}
	return replyGrant(c, http.StatusCreated, g)
}

// maxMillis keeps what a client says within what a Duration holds; what is allowed
// is much less.
const maxMillis = 1 << 40

func millis(n int64) time.Duration {
	return time.Duration(min(max(n, -1), maxMillis)) * time.Millisecond
}

// shownLease is how a holder shows a lease.
type shownLease struct {
	Holder string `json:"holder"`
	Token  token  `json:"token"`
}

// token is written as a decimal string, and read from a number, too: 53 bits do for
// most of them, and not for those after a restore.
type token fencing.Token

// UnmarshalJSON implements json.Unmarshaler.
func (t *token) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseUint(strings.Trim(string(text), `"`), 10, 64)
	if err != nil {
		return errors.New("token is not a decimal number")
	}
	*t = token(n)
	return nil
}

func (l lendingAPI) renewLease(c echo.Context) error {
	var h shownLease
	if err := readJSON(c, l.documents, &h); err != nil {
		return err
	}
	ctx, cancel := limited(c)
	defer cancel()
	g, err := l.lending.Renew(ctx, c.Param("lease"), h.Holder, fencing.Token(h.Token))
	if err != nil {
		return err
	}
	hush(c) // the audit knows who acquired it; ten thousand holders that live on would fill the log
	return replyGrant(c, http.StatusOK, g)
}

// releaseLease ends a grant that its holder shows, in the body or, for clients that
// send none with DELETE, in the query. With record=1 it removes the record of a
// free one.
func (l lendingAPI) releaseLease(ctx context.Context, c echo.Context) error {
	q := query(c)
	if q.Get("record") == "1" {
		return l.lending.Delete(ctx, c.Param("lease"))
	}
	h := shownLease{Holder: q.Get("holder")}
	if q.Has("token") {
		t, err := tokenOf("token", q.Get("token"), true)
		if err != nil {
			return err
		}
		h.Token = token(t)
	} else if err := readJSON(c, l.documents, &h); err != nil {
		return err
	}
	entry, err := l.lending.Release(ctx, c.Param("lease"), h.Holder, fencing.Token(h.Token))
	if err != nil {
		return err
	}
	auditEntry(ctx, entry) // it is not this call's alone
	return nil
}

// readJSON reads a small body into v. Names that v does not have are ignored.
func readJSON(c echo.Context, documents bodies, v any) error {
	body, release, err := documents.readBody(c, maxLeaseBody)
	defer release()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return refuse(http.StatusBadRequest, badRequest+"the body is not what is asked for: %v", err)
	}
	return nil
}

// waitOf reads ?wait=, as 30s; absent is no wait.
func waitOf(q interface{ Get(string) string }) (time.Duration, error) {
	text := q.Get("wait")
	if text == "" {
		return 0, nil
	}
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 || wait > lease.MaxWait {
		return 0, refuse(http.StatusBadRequest, badRequest+"wait is 0s to %v, not %q", lease.MaxWait, text)
	}
	return wait, nil
}

// tokenOf reads a token of a query or header; absent is none.
func tokenOf(what, text string, needed bool) (fencing.Token, error) {
	if text == "" && !needed {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, refuse(http.StatusBadRequest, badRequest+"%s is a decimal number, not %q", what, text)
	}
	return fencing.Token(n), nil
}

func replyGrant(c echo.Context, status int, g lease.Grant) error {
	c.Response().Header().Set("ETag", quoted(g.Token))
	return replyValue(c, status, shownGrant(g))
}

func quoted(t fencing.Token) string { return `"` + t.String() + `"` }

// listedGrant is a lease as answers show it. Times are whole milliseconds, rounded down:
// a holder that counts on what remains counts on less.
type listedGrant struct {
	Holder    string        `json:"holder"`
	Metadata  string        `json:"metadata"`
	Name      string        `json:"name"`
	Remaining int64         `json:"remaining_ms"`
	Token     fencing.Token `json:"token"`
	TTL       int64         `json:"ttl_ms"`
}

func shownGrant(g lease.Grant) listedGrant {
	return listedGrant{Holder: g.Holder, Metadata: g.Metadata, Name: g.Name, Remaining: g.Remaining.Milliseconds(),
		Token: g.Token, TTL: g.TTL.Milliseconds()}
}
