package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// Path is where the page is.
const Path = "/ui/"

// The headers of every answer: which release of the page the peer serves, so that
// an older page can reload itself, and which peer answered.
const (
	headerVersion = "X-Trivet-Page"
	headerPeer    = "X-Trivet-Peer"
)

// Guard tells who calls. *api.Inspector is one.
type Guard interface {
	// Caller judges the credentials of a request; proved is false where none are
	// asked for.
	Caller(r *http.Request) (who api.Caller, proved bool, err error)
	// ForPage returns r with the user whom the audit names.
	ForPage(r *http.Request, who api.Caller) *http.Request
}

var _ Guard = (*api.Inspector)(nil)

// Names lists the nodes of Ironic, within the time of the context. The list is
// shared and not changed.
type Names interface {
	All(ctx context.Context) ([]ironic.NodeName, error)
}

// Facts gathers what doctor judges.
type Facts interface {
	Facts(ctx context.Context, all bool) []doctor.Facts
}

// Options are what a Page is made from. Every field must be set.
type Options struct {
	Public  http.Handler // the inspector's API; it judges credentials itself
	Control http.Handler // the operators' routes, of which a user of the page gets some
	Guard   Guard
	// Admission and Proxies are those of api.Inspector.
	Admission *admission.Controller // nil: one of its own
	Proxies   []netip.Prefix
	Logins    *api.Logins // may be nil
	Strategy  string      // api.auth_strategy
	Peer      string      // name of this peer
	Sources
	Wall   func() time.Time
	Random io.Reader
	Logger *slog.Logger
}

// Sources are what the page shows. Every field must be set.
type Sources struct {
	View     func() fsm.View
	StaleFor func() time.Duration // since this peer last heard of a leader
	Names    Names
	Facts    Facts
	// Boot is what was heard of a node's newest boot, and why its machine does not call; nil: nothing.
	Boot func(node string) *api.Boot
}

// Page is the handler of everything below Path. It may be used concurrently.
type Page struct {
	o        Options
	assets   *assets
	routes   *http.ServeMux
	nodes    *directory
	findings *examination
	tables   *admission.Shared[string, machineList] // by what is wanted
	book     *addressBook
}

// New returns the page. The error is one of the assets, which are compiled in, or of
// what unpacks documents.
func New(o Options) (*Page, error) {
	a, err := openAssets()
	if err != nil {
		return nil, fmt.Errorf("assets of the page: %w", err)
	}
	packer, err := blobs.NewPacker(1, nil)
	if err != nil {
		return nil, err
	}
	if o.Admission == nil {
		o.Admission = admission.NewController()
	}
	p := &Page{
		o: o, assets: a, routes: http.NewServeMux(), tables: admission.NewShared[string, machineList](tablesFor, tablesMost),
		nodes: &directory{names: o.Names, now: o.Wall}, findings: &examination{facts: o.Facts, now: o.Wall},
		book: &addressBook{packer: packer, logger: o.Logger, told: make(map[blobs.Hash]addresses)},
	}
	for _, r := range p.own() {
		p.handle(r.pattern, func(w http.ResponseWriter, asked *http.Request) error {
			if r.need != api.RoleNone {
				var err error
				if asked, _, err = p.identified(asked, r.need, false); err != nil {
					return err
				}
			}
			return r.handler(w, asked)
		})
	}
	for _, r := range operations() { // Control admits them
		p.handle(r.method+" /ui/api"+r.path, p.control(r))
	}
	p.handle("/ui/api/v1/", p.public) // Public admits them
	return p, nil
}

// handler answers a request, or says why it is refused.
type handler func(w http.ResponseWriter, r *http.Request) error

// handle has a handler answer what fits a pattern.
func (p *Page) handle(pattern string, h handler) {
	p.routes.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			p.fail(w, r, err)
		}
	})
}

// route is one that the page answers itself, for users who may do as much as need.
type route struct {
	pattern string
	need    api.Role
	handler handler
}

// own are the routes that the page answers itself. Those that wait for their caller's body, in
// line for bcrypt, or for other hosts take their place when they have what they wait for.
func (p *Page) own() []route {
	return []route{
		{"GET /ui/{$}", api.RoleNone, p.placed(admission.Stranger, p.index)},
		{"GET /ui/static/{version}/{name}", api.RoleNone, p.placed(admission.Stranger, p.asset)},
		{"GET /ui/api/session", api.RoleNone, p.session},
		{"POST /ui/api/session", api.RoleNone, p.logIn},
		{"DELETE /ui/api/session", api.RoleNone, p.placed(admission.Stranger, p.logOut)},
		{"GET /ui/api/machines", api.RoleReader, p.placed(admission.Dear, p.machines)},
		{"GET /ui/api/names", api.RoleReader, p.placed(admission.Request, p.names)},
		{"GET /ui/api/findings", api.RoleAdmin, p.doctor},
	}
}

// placed runs a handler in a place of a class.
func (p *Page) placed(class admission.Class, h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return api.Placed(p.o.Admission, class, p.o.Proxies, r, func(r *http.Request) error { return h(w, r) })
	}
}

// ServeHTTP implements http.Handler.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set(headerVersion, p.assets.version)
	h.Set(headerPeer, p.o.Peer)
	if r.URL.Path+"/" == Path {
		h.Set("Location", "ui/") // relative, also on the wire: a proxy may have a prefix before it
		w.WriteHeader(http.StatusPermanentRedirect)
		return
	}
	p.routes.ServeHTTP(w, r)
}

// policy lets the browser load what this peer serves and nothing else. Trusted
// types make it refuse to parse text as HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// fail answers with an error in the shape that all of the API has.
func (p *Page) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := api.Refusal(err)
	if e.Status == http.StatusInternalServerError {
		p.o.Logger.ErrorContext(r.Context(), "request of the page failed", "method", r.Method, "path", r.URL.Path, "err", err)
		e.Message = "Internal server error"
	}
	if e.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if err := p.reply(w, r, e.Status, api.ErrorBody{Error: e}); err != nil { // there was no room for it
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (p *Page) reply(w http.ResponseWriter, r *http.Request, status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		p.o.Logger.ErrorContext(r.Context(), "encode answer to the page failed", "path", r.URL.Path, "err", err)
		status, body = http.StatusInternalServerError, []byte(`{"error":{"message":"Internal server error"}}`)
	}
	if err := api.Deliver(r.Context(), len(body)); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(append(body, '\n')); err != nil {
		p.o.Logger.DebugContext(r.Context(), "send answer to the page failed", "path", r.URL.Path, "err", err)
	}
	return nil
}
