package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/trivet-ha/trivet/inspector/accept"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/lease"
)

// Introspector is asked to change something. ref is a node's UUID or name.
type Introspector interface {
	Start(ctx context.Context, ref string, manageBoot bool) error
	Abort(ctx context.Context, ref string) error
	Reapply(ctx context.Context, ref string, body []byte) error
}

// Receiver takes in the documents of ramdisks.
type Receiver interface {
	Continue(ctx context.Context, body []byte) (node string, err error)
}

// Log says when it has been read.
type Log interface {
	// Current waits until this peer's state has all that was committed before the call.
	Current(ctx context.Context) error
}

// Reports is what is known of introspections.
type Reports interface {
	Status(ctx context.Context, ref string, r inspector.Reading) (introspection.Record, error)
	List(ctx context.Context, p accept.Page, r inspector.Reading) ([]introspection.Record, error)
	// Data returns a JSON document.
	Data(ctx context.Context, ref string, processed bool, r inspector.Reading) ([]byte, error)
}

// Service is what the inspector's API speaks to.
type Service interface {
	Introspector
	Receiver
	Log
	Reports
	RuleKeeper
	DryRunner
}

var _ Service = (*accept.Service)(nil)

// Inspector is the REST API of ironic-inspector 1.18, mended where the original
// is broken (docs/contract.md#resources and the sections after it). Every field must be set;
// without Auth each request fails.
type Inspector struct {
	Service   Service
	Auth      Auth
	MaxLimit  int                  // the longest page of a list, api_max_limit
	StaleFor  func() time.Duration // how old this peer's own answer may be; below 0: nothing bounds it
	Callbacks CallbackLimit        // the zero one limits nothing
	Inband    InbandInspection     // nil: there is no such path
	Lending   *lease.Service       // what other programs borrow; nil: there are no such paths
	Nodes
	ClusterReads
	Report    func(eventring.Report) // records the audit as events; nil: it is not recorded
	Proxies   []netip.Prefix         // who may say for whom it asks; may be empty
	Admission *admission.Controller  // nil: one of its own
	Logger    *slog.Logger
}

// requestLimit bounds the work on one request. It is longer than what the
// service waits for the end of a callback, and than a few tries to reach Ironic.
const requestLimit = 60 * time.Second

// Caller returns who sent a request, and whether the caller proved that: with the
// strategy noauth a caller proves nothing. The error refuses the credentials.
func (i *Inspector) Caller(r *http.Request) (who Caller, proved bool, err error) {
	if err := i.Auth.WellFormed(r); err != nil {
		return Caller{}, false, err
	}
	sender, _ := senderOf(r, i.Proxies)
	if who, err = i.Auth.Identify(r, sender); err != nil {
		return Caller{}, false, err
	}
	_, open := i.Auth.(noAuth)
	return who, !open, nil
}

// callerKey and provedKey are where protected leaves who calls, and whether that was
// proved, for handlers.
const (
	callerKey = "caller"
	provedKey = "proved"
)

// callerOf returns who calls, the zero Caller where no credentials were asked for.
func callerOf(c echo.Context) Caller {
	caller, _ := c.Get(callerKey).(Caller)
	return caller
}

// admitted runs h, for requests of this method, in a place of their class. A dear read waits
// for the quorum before it takes one: a place computes, and must not stand idle while there is
// no leader.
func (i *Inspector) admitted(r *resource, method string, h echo.HandlerFunc) echo.HandlerFunc {
	class, change := r.class(method), method != http.MethodGet && !r.shares
	in := admitted(i.Admission, class, func(c echo.Context) admission.Caller {
		proved, _ := c.Get(provedKey).(bool)
		caller := admission.Caller{Source: senderSource(c.Request(), i.Proxies),
			Known: proved && callerOf(c).Role == RoleAdmin, Change: change}
		if class == admission.Callback {
			caller.Until = waitEnd(c.Request())
		}
		return caller
	}, h)
	if class != admission.Dear || i.Service == nil {
		return in
	}
	return func(c echo.Context) error {
		if i.reading(c) == inspector.Linearizable {
			ctx, cancel := limited(c)
			defer cancel()
			if err := i.Service.Current(ctx); err != nil {
				return err
			}
		}
		return in(c)
	}
}

// audited tells what h was asked to change. It answers 503 where a table of h is full:
// docs/contract.md#errors has no 507, and ramdisks and the clients of OpenStack repeat a
// request that got 503. The lease API answers by itself, in a contract of its own.
func (i *Inspector) audited(strangers *unproved, h echo.HandlerFunc) echo.HandlerFunc {
	begin := func(r *http.Request) *call { return publicCall(r, i.Proxies) }
	return audited(i.Logger, strangers, i.Report, begin)(func(c echo.Context) error {
		err := h(c)
		if errors.Is(err, fsm.TableFull) {
			return refuse(http.StatusServiceUnavailable, "%v", err)
		}
		return err
	})
}

// options says what may be done with a path, as the original does.
func options(allow string) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Header().Set(echo.HeaderAllow, allow)
		return reply(c, http.StatusOK, htmlType, nil)
	}
}

func versions(c echo.Context) error {
	type version struct {
		ID     string  `json:"id"`
		Links  [1]link `json:"links"`
		Status string  `json:"status"`
	}
	return replyValue(c, http.StatusOK,
		map[string]any{"versions": [1]version{{maximumVersion, selfLink(rootOf(c.Request()) + "/v1"), "CURRENT"}}})
}

// link is a link to a resource, as the contract has it.
type link struct {
	Href string `json:"href"`
	Rel  string `json:"rel"`
}

// selfLink is how a resource says where it is.
func selfLink(href string) [1]link { return [1]link{{href, "self"}} }

// resources lists the parts of the API. Clients look for the rules here before
// they use them.
func resources(c echo.Context) error {
	type part struct {
		Links [1]link `json:"links"`
		Name  string  `json:"name"`
	}
	var parts []part
	for _, name := range []string{"continue", "introspection", "rules"} {
		parts = append(parts, part{selfLink(rootOf(c.Request()) + "/v1/" + name), name})
	}
	return replyValue(c, http.StatusOK, map[string]any{"resources": parts})
}

// handlers answer the paths about nodes, rules and expectations, and the one that processes data again. documents
// takes the bodies.
type handlers struct {
	*Inspector
	documents bodies
}

// limited returns the context in which a request is worked on.
func limited(c echo.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.Request().Context(), requestLimit)
}

// timed is a handler that has requestLimit.
func timed(h func(ctx context.Context, c echo.Context) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx, cancel := limited(c)
		defer cancel()
		return h(ctx, c)
	}
}

// answering is one that answers with a value in JSON.
func answering(h func(ctx context.Context, c echo.Context) (any, error)) echo.HandlerFunc {
	return timed(func(ctx context.Context, c echo.Context) error {
		value, err := h(ctx, c)
		if err != nil {
			return err
		}
		return replyValue(c, http.StatusOK, value)
	})
}

// done is one that answers with nothing.
func done(h func(ctx context.Context, c echo.Context) error) echo.HandlerFunc {
	return timed(func(ctx context.Context, c echo.Context) error {
		if err := h(ctx, c); err != nil {
			return err
		}
		return reply(c, http.StatusNoContent, plainType, nil)
	})
}

// withBody is one of a body of at most so many bytes; its time begins when that is there.
func withBody(documents bodies, most int64,
	h func(ctx context.Context, c echo.Context, body []byte) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		body, release, err := documents.readBody(c, most)
		defer release()
		if err != nil {
			return err
		}
		return timed(func(ctx context.Context, c echo.Context) error { return h(ctx, c, body) })(c)
	}
}

// onNode is a handler of a path that names a node, by UUID or name.
func onNode(h func(ctx context.Context, c echo.Context, ref string) error) echo.HandlerFunc {
	return timed(func(ctx context.Context, c echo.Context) error {
		ref, err := nodeRef(c)
		if err != nil {
			return err
		}
		return h(ctx, c, ref)
	})
}

// ofNode is one that answers with a value in JSON.
func ofNode(h func(ctx context.Context, c echo.Context, ref string) (any, error)) echo.HandlerFunc {
	return answering(func(ctx context.Context, c echo.Context) (any, error) {
		ref, err := nodeRef(c)
		if err != nil {
			return nil, err
		}
		return h(ctx, c, ref)
	})
}

func (i *Inspector) start(ctx context.Context, c echo.Context, ref string) error {
	manageBoot, err := manageBoot(query(c))
	if err != nil {
		return err
	}
	if err := i.Service.Start(ctx, ref, manageBoot); err != nil {
		return err
	}
	return accepted(c)
}

func (i *Inspector) abort(ctx context.Context, c echo.Context, ref string) error {
	if err := i.Service.Abort(ctx, ref); err != nil {
		return err
	}
	return accepted(c)
}

func accepted(c echo.Context) error { return replyJSON(c, http.StatusAccepted, []byte("{}")) }

// reading says how fresh the answer must be. With ?stale=1 it is this peer's
// own view and a header tells, in ms, how old that may be; none if nothing bounds it.
func (i *Inspector) reading(c echo.Context) inspector.Reading {
	if query(c).Get("stale") != "1" {
		return inspector.Linearizable
	}
	if age := i.StaleFor(); age >= 0 {
		c.Response().Header().Set("X-Stale-For", fmt.Sprint((age + time.Millisecond - 1).Milliseconds()))
	}
	return inspector.Stale
}

func (i *Inspector) status(ctx context.Context, c echo.Context, ref string) error {
	rec, err := i.Service.Status(ctx, ref, i.reading(c))
	if err != nil {
		return err
	}
	if !rec.Logs.IsZero() {
		c.Response().Header().Set(headerLogs, rec.Logs.String())
	}
	return replyJSON(c, http.StatusOK, appendStatus(make([]byte, 0, statusSize), rec, rootOf(c.Request())))
}

// headerLogs of a status names the peer that keeps the ramdisk's logs, and the
// file: the body has the seven keys of the contract and no others.
const headerLogs = "X-Trivet-Ramdisk-Logs"

func (i *Inspector) list(ctx context.Context, c echo.Context) error {
	page, err := parsePage(query(c), i.MaxLimit)
	if err != nil {
		return err
	}
	records, err := i.Service.List(ctx, page, i.reading(c))
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusOK, appendList(records, rootOf(c.Request())))
}

// data answers with a document as it is stored, without the newline that ends
// every other body.
func (i *Inspector) data(processed bool) echo.HandlerFunc {
	return onNode(func(ctx context.Context, c echo.Context, ref string) error {
		document, err := i.Service.Data(ctx, ref, processed, i.reading(c))
		if err != nil {
			return err
		}
		return reply(c, http.StatusOK, jsonType, document)
	})
}

// reapply has a node's data processed again: what the body brings, or what is
// stored.
func (h handlers) reapply(c echo.Context) error {
	ref, err := nodeRef(c)
	if err != nil {
		return err
	}
	return withBody(h.documents, MaxDocument, func(ctx context.Context, c echo.Context, body []byte) error {
		if err := h.Service.Reapply(ctx, ref, body); err != nil {
			return err
		}
		return accepted(c)
	})(c)
}
