package web

import (
	"io"
	"net/http"
	"strings"

	"github.com/trivet-ha/trivet/api"
)

// operation is a route of the control interface that the page opens to users of
// the public API. Everything else there is for the socket and operator certificates.
type operation struct {
	method, path string
	need         api.Role
	// proved wants a user who showed credentials. With noauth everybody who reaches
	// the API may introspect, and no user may change the cluster.
	proved bool
	body   string // sent in place of the request's; "": the request's
}

func operations() []operation {
	const get, put, post = http.MethodGet, http.MethodPut, http.MethodPost
	return []operation{
		{method: get, path: "/v1/status", need: api.RoleReader},
		{method: get, path: "/v1/members", need: api.RoleReader},
		{method: get, path: "/v1/failover", need: api.RoleReader},
		{method: get, path: "/v1/failover/remediations", need: api.RoleReader},
		{method: get, path: "/v1/firewall/explain/{machine}", need: api.RoleReader},
		{method: get, path: "/v1/firewall/heard", need: api.RoleReader},
		{method: get, path: "/v1/log", need: api.RoleAdmin},
		{method: post, path: "/v1/transfer", need: api.RoleAdmin, proved: true},
		{method: put, path: "/v1/maintenance", need: api.RoleAdmin, proved: true},
		{method: post, path: "/v1/failover/pause", need: api.RoleAdmin, proved: true},
		{method: post, path: "/v1/failover/resume", need: api.RoleAdmin, proved: true},
		// A drill that kills the leader's process stays with the command line.
		{method: post, path: "/v1/drill", need: api.RoleAdmin, proved: true, body: "{}"},
	}
}

// below strips what the page puts before a path of the API.
func below(r *http.Request) *http.Request {
	const prefix = "/ui/api"
	out := r.Clone(r.Context())
	out.URL.Path = strings.TrimPrefix(r.URL.Path, prefix)
	out.URL.RawPath = ""
	return out
}

// identified judges a request of the page: it comes from the page, and its user may
// do as much as need.
func (p *Page) identified(r *http.Request, need api.Role, proof bool) (*http.Request, api.Caller, error) {
	if err := p.fromPage(r); err != nil {
		return nil, api.Caller{}, err
	}
	as, err := p.authenticated(r)
	if err != nil {
		return nil, api.Caller{}, err
	}
	who, proved, err := p.o.Guard.Caller(as)
	switch {
	case err != nil:
		return nil, api.Caller{}, err
	case who.Role < need:
		return nil, api.Caller{},
			&api.Error{Status: http.StatusForbidden, Code: api.CodeNotAuthorised, Message: "Access denied by policy"}
	case proof && !proved:
		return nil, api.Caller{}, &api.Error{Status: http.StatusForbidden, Code: api.CodeNotAuthorised,
			Message: "the API asks for no credentials (api.auth_strategy noauth), so the page does not change the cluster",
			Hint:    "use the command line on a host"}
	}
	return as, who, nil
}

// control hands a request to the control interface, for the user of the session.
func (p *Page) control(o operation) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		as, who, err := p.identified(r, o.need, o.proved)
		if err != nil {
			return err
		}
		if o.body != "" {
			as.Body, as.ContentLength = io.NopCloser(strings.NewReader(o.body)), int64(len(o.body))
		}
		p.o.Control.ServeHTTP(w, p.o.Guard.ForPage(below(as), who))
		return nil
	}
}

// public hands a request to the inspector's API with the credentials of the session;
// the API judges them.
func (p *Page) public(w http.ResponseWriter, r *http.Request) error {
	if err := p.fromPage(r); err != nil {
		return err
	}
	as, err := p.authenticated(r)
	if err != nil {
		return err
	}
	p.o.Public.ServeHTTP(w, below(as))
	return nil
}
