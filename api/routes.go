package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// Role is what a caller may do with the inspector's API. The original's other roles
// (member) may do nothing here that a stranger may not.
type Role uint8

// The roles. The zero Role may do what is public and nothing else, so that a
// strategy that forgets to name one opens nothing.
const (
	RoleNone   Role = iota
	RoleReader      // may see how introspections stand
	RoleAdmin       // may do everything
)

// String returns the role as the original's policies name it.
func (r Role) String() string {
	switch r {
	case RoleReader:
		return "reader"
	case RoleAdmin:
		return "admin"
	}
	return "none"
}

// Caller is who sent a request, as a strategy found out. All but the role is for
// the audit.
type Caller struct {
	Name   string
	Role   Role
	ID     string // of Keystone's user, as the next two; "" with other strategies
	Domain string // of the user, by name
	Scope  string // what the token is for: "system", "project DOMAIN/NAME", "domain NAME"
}

// allow refuses a caller whose role is below need, in the words of
// docs/contract.md#errors. The caller has proved who it is: 401 would make it ask
// for a password.
func (c Caller) allow(need Role) error {
	if c.Role < need {
		return refuse(http.StatusForbidden, "Access denied by policy")
	}
	return nil
}

// resource is one path of the contract and what may be done with it.
type resource struct {
	path   string
	public bool            // no credentials are asked for
	reader bool            // who may only read may GET it; all else is for admins
	cost   admission.Class // of GET, and of a callback
	shares bool            // what many callers POST is one entry of the log
	get    echo.HandlerFunc
	post   echo.HandlerFunc
	put    echo.HandlerFunc
	remove echo.HandlerFunc // DELETE
}

// class returns what a request of this method costs.
func (r *resource) class(method string) admission.Class {
	if method == http.MethodGet || r.cost == admission.Callback {
		return r.cost
	}
	return admission.Request
}

func (i *Inspector) resources() []resource {
	if i.Admission == nil {
		i.Admission = admission.NewController()
	}
	h, callers := handlers{i, bodies{i.Admission.Bodies()}}, newCallbackRates(i.Callbacks, i.Logger)
	var more []resource
	if i.Inband != nil {
		more = append(more, resource{path: pathInbandInspection, public: true, cost: admission.Callback,
			post: i.inband(callers, h.documents)})
	}
	return slices.Concat([]resource{
		{path: "/", public: true, cost: admission.Stranger, get: versions},
		{path: "/v1", public: true, cost: admission.Stranger, get: resources},
		{path: pathOpenAPI, public: true, cost: admission.Stranger, get: openAPI()},
		{path: "/v1/continue", public: true, cost: admission.Callback, post: i.callback(callers, h.documents)},
		{path: "/v1/introspection", reader: true, cost: admission.Dear, get: timed(i.list)},
		{path: "/v1/introspection/:node", reader: true, cost: admission.Request, get: onNode(i.status),
			post: onNode(i.start)},
		{path: "/v1/introspection/:node/abort", post: onNode(i.abort)},
		{path: "/v1/introspection/:node/data", cost: admission.Dear, get: i.data(true)},
		{path: "/v1/introspection/:node/data/unprocessed", cost: admission.Dear, get: i.data(false),
			post: h.reapply},
		{path: "/v1/rules", cost: admission.Dear, get: answering(h.listRules),
			post:   withBody(h.documents, MaxRuleBody, h.createRule),
			remove: done(func(ctx context.Context, _ echo.Context) error { return i.Service.DeleteRules(ctx) })},
		{path: "/v1/rules/:rule", cost: admission.Request, get: answering(h.showRule),
			remove: done(func(ctx context.Context, c echo.Context) error {
				return i.Service.DeleteRule(ctx, c.Param("rule"))
			})},
		{path: pathDryRun, cost: admission.Request, post: withBody(h.documents, MaxDryRunBody, h.dryRun)},
	}, i.leaseResources(h.documents), h.nodeResources(), i.statusResources(), i.eventResources(),
		more)
}

// Handler returns the routes of i. It must see paths as they were sent: a mux
// in front of it would answer some of them itself.
func (i *Inspector) Handler() http.Handler {
	e := NewEcho()
	e.HTTPErrorHandler = i.render
	e.Pre(i.front)
	strangers := newUnproved(i.Logger)
	for _, r := range i.resources() {
		i.route(e, r, strangers)
	}
	return Identified(e)
}

func (i *Inspector) route(e *echo.Echo, r resource, strangers *unproved) {
	allow := []string{http.MethodOptions}
	read, change := RoleAdmin, RoleAdmin
	if r.reader {
		read = RoleReader
	}
	if r.public {
		read, change = RoleNone, RoleNone
	}
	if r.get != nil {
		get := i.protected(read, i.admitted(&r, http.MethodGet, r.get))
		e.GET(r.path, get)
		e.HEAD(r.path, get) // net/http leaves the body out
		allow = append(allow, http.MethodGet, http.MethodHead)
	}
	for _, of := range []struct {
		method string
		handle echo.HandlerFunc
	}{{http.MethodPost, r.post}, {http.MethodPut, r.put}, {http.MethodDelete, r.remove}} {
		if of.handle != nil {
			e.Add(of.method, r.path, i.audited(strangers,
				sameSite(i.protected(change, i.admitted(&r, of.method, of.handle)))))
			allow = append(allow, of.method)
		}
	}
	e.OPTIONS(r.path, options(strings.Join(allow, ", ")))
}

// protected asks who calls before h, unless everybody may.
func (i *Inspector) protected(need Role, h echo.HandlerFunc) echo.HandlerFunc {
	if need == RoleNone {
		return h
	}
	return func(c echo.Context) error {
		made := callOf(c.Request().Context())
		if made != nil {
			made.caller = Caller{Name: whoUnauthenticated}
		}
		caller, proved, err := i.Caller(c.Request())
		if err != nil {
			return err
		}
		if made != nil {
			made.caller, made.proved = caller, proved
		}
		if err := caller.allow(need); err != nil {
			return err
		}
		c.Set(callerKey, caller)
		c.Set(provedKey, proved)
		return h(c)
	}
}
