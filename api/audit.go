package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"

	"github.com/trivet-ha/trivet/inspector/accept"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/internal/bounds"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/internal/logs"
)

// Every call that may change something leaves one line in the log, also one that
// failed, but for the renewal of a lease by its holder: message "audit", and a
// group of that name with
//
//	api      public, control, or page: what the page at /ui/ asks of control
//	who      the user, operator or process; see caller names below
//	id, domain, scope   of Keystone's user alone, and what the token is for
//	role     public alone: what that user may do
//	from     the address that sent it, "socket" for the unix socket
//	via      the proxy that handed it on, if any
//	method, path
//	status   of the answer
//	index    the fencing token of the log's last entry for it; absent for none
//
// Of callers who committed nothing, and proved nothing or were refused, a source gets
// some lines a minute, and then one with the number of its other requests as repeated, and no
// method, path or ID; see unproved.
//
// The keys request_id and global_request_id are next to the group, as in every
// line that belongs to a request; see Identified.
//
// A query, headers and bodies are never told: they may hold secrets. What is
// written by the caller is cut and cannot break the line.
const auditMessage = "audit"

// Who a caller is when no name was proved.
const (
	whoAnonymous       = "anonymous"       // the API asks for no credentials
	whoUnauthenticated = "unauthenticated" // it does, and the request had none that are good
)

// maxAuditText bounds what a caller writes into the log, in bytes.
const maxAuditText = 200

// call is what the audit tells of one request, as far as the request's own
// goroutine has found out; the code that commits notes the index.
type call struct {
	api       string
	caller    Caller
	sender    string
	source    netip.Prefix // of sender
	via       string
	proved    bool // the caller showed good credentials
	repeated  int  // how many requests one line stands for; 0 for its own
	hushed    bool
	committed atomic.Uint64
}

// callKey finds the call of a request in its context.
type callKey struct{}

func callOf(ctx context.Context) *call {
	made, _ := ctx.Value(callKey{}).(*call)
	return made
}

// hush takes a request out of the audit: it was turned away at the door, and
// the log says so once for all of its kind; or it left all as it was told before.
func hush(c echo.Context) {
	if made := callOf(c.Request().Context()); made != nil {
		made.hushed = true
	}
}

// audited tells a call that may change something. logger must not be nil; strangers
// may be: then each call is logged. report, unless it is nil, has the calls of proved
// callers recorded as events.
func audited(logger *slog.Logger, strangers *unproved, report func(eventring.Report),
	begin func(*http.Request) *call) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			made := begin(r)
			c.SetRequest(r.WithContext(context.WithValue(r.Context(), callKey{}, made)))
			status := http.StatusInternalServerError // of a panic
			defer func() {
				if made.hushed || !made.worth(strangers, status) {
					return
				}
				made.logCall(logger.With(requestKeys(r.Context())...), r.Method, r.URL.Path, status)
				if made.proved && report != nil {
					report(made.event(logs.RequestOf(r.Context()).ID, r.Method, r.URL.Path, status))
				}
			}()
			err := next(c)
			if made.hushed = made.hushed || nowhere(err); !made.hushed {
				status = statusOf(c, err)
			}
			return err
		}
	}
}

// worth reports whether a call gets a line of its own: every one that committed
// something, and every one of a proved caller that was not refused. Who may only read
// can be refused as often as a stranger.
func (m *call) worth(strangers *unproved, status int) bool {
	return strangers == nil || m.committed.Load() != 0 || m.proved && status < http.StatusBadRequest ||
		strangers.admit(m.source, m.caller.Name, status)
}

// nowhere tells calls that led to no route.
func nowhere(err error) bool {
	return errors.Is(err, echo.ErrNotFound) || errors.Is(err, echo.ErrMethodNotAllowed)
}

// statusOf is what a request is or will be answered with.
func statusOf(c echo.Context, err error) int {
	if err != nil && !c.Response().Committed {
		return translate(err).Status
	}
	return c.Response().Status
}

func (m *call) logCall(logger *slog.Logger, method, path string, status int) {
	fields := make([]any, 0, 12)
	text := func(key, value string) {
		if value != "" {
			fields = append(fields, slog.String(key, bounded(value)))
		}
	}
	text("api", m.api)
	text("who", m.caller.Name)
	text("id", m.caller.ID)
	text("domain", m.caller.Domain)
	text("scope", m.caller.Scope)
	if m.caller.Role != RoleNone {
		text("role", m.caller.Role.String())
	}
	text("from", m.sender)
	text("via", m.via)
	text("method", method)
	text("path", path)
	fields = append(fields, slog.Int("status", status))
	if m.repeated > 0 {
		fields = append(fields, slog.Int("repeated", m.repeated))
	}
	if index := m.committed.Load(); index != 0 {
		fields = append(fields, slog.Uint64("index", index))
	}
	logger.Info(auditMessage, slog.Group(auditMessage, fields...))
}

// event is what the audit tells, as an event: of callers who proved who they are alone,
// since each costs a part of an entry.
func (m *call) event(request, method, path string, status int) eventring.Report {
	who, from := bounded(m.caller.Name), bounded(m.sender)
	fields := map[string]string{
		"api": m.api, "who": who, "from": from, "method": method, "path": bounded(path), "status": strconv.Itoa(status),
		"request_id": bounded(request),
	}
	if m.caller.Role != RoleNone {
		fields["role"] = m.caller.Role.String()
	}
	if index := m.committed.Load(); index != 0 {
		fields["token"] = strconv.FormatUint(index, 10)
	}
	return eventring.Report{
		Topic: eventring.TopicAudit, Action: "call", Fields: fields,
		Text: fmt.Sprintf("%s asked for %s %s, from %s, and was answered %d.", who, method, bounded(path), from, status),
	}
}

// bounded cuts what a caller wrote, at the edge of a character.
func bounded(text string) string { return bounds.Excerpt(text, maxAuditText) }

// requestKeys returns the keys of the request that ctx belongs to. The audit has them
// with any handler of the log.
func requestKeys(ctx context.Context) (keys []any) {
	for _, a := range logs.RequestOf(ctx).Attrs() {
		keys = append(keys, a)
	}
	return keys
}

// publicCall begins the audit of a request to the public API. A caller of a
// protected resource counts as unknown until it has proved who it is.
func publicCall(r *http.Request, proxies []netip.Prefix) *call {
	made := &call{api: "public", caller: Caller{Name: whoAnonymous}}
	sender, connected := senderOf(r, proxies)
	made.sender, made.source = nameOf(sender), admission.SourceOf(sender)
	if sender != connected {
		made.via = nameOf(connected)
	}
	return made
}

func nameOf(a netip.Addr) string {
	if !a.IsValid() {
		return "unknown"
	}
	return a.String()
}

// Doer commits commands exactly once.
type Doer interface {
	Do(ctx context.Context, client string, c fsm.Command) (fsm.Result, error)
}

// traced is a Doer that notes what was committed for a call.
type traced struct{ Doer }

// Traced returns a Doer that tells the audit of the request in whose context a
// command is committed; everything that changes the log for a caller goes
// through it.
func Traced(d Doer) Doer { return traced{d} }

// Do implements Doer.
func (t traced) Do(ctx context.Context, client string, c fsm.Command) (fsm.Result, error) {
	res, err := t.Doer.Do(ctx, client, c)
	if err == nil {
		auditEntry(ctx, res.Token)
	}
	return res, err
}

// auditEntry tells the audit of the call in whose context an entry was committed.
func auditEntry(ctx context.Context, entry fencing.Token) {
	if made := callOf(ctx); made != nil {
		made.committed.Store(uint64(entry))
	}
}

// tracedTaker is a Taker that notes what was committed for a call.
type tracedTaker struct{ accept.Taker }

// TracedTaker is Traced for callbacks that are begun where they came in.
func TracedTaker(t accept.Taker) accept.Taker { return tracedTaker{t} }

// Take implements inspector.Taker.
func (t tracedTaker) Take(ctx context.Context, c inspector.Callback) (introspection.Queued, bool) {
	queued, ok := t.Taker.Take(ctx, c)
	if ok {
		auditEntry(ctx, queued.Request)
	}
	return queued, ok
}
