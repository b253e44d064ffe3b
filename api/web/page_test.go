package web

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"golang.org/x/crypto/bcrypt"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/test/memlog"
)

// told notes the requests that a handler behind the page gets, and answers {}.
type told struct{ requests []*http.Request }

func (t *told) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // of a recorder it does not fail
	r.Body = io.NopCloser(bytes.NewReader(body))
	t.requests = append(t.requests, r)
	_, _ = w.Write([]byte("{}")) // a recorder takes it
}

func (t *told) take() []*http.Request {
	out := t.requests
	t.requests = nil
	return out
}

// source is what the page asks for names and facts.
type source struct {
	nodes    []ironic.NodeName
	err      error
	asked    int
	examined int
}

func (i *source) All(context.Context) ([]ironic.NodeName, error) {
	i.asked++
	return i.nodes, i.err
}

func (i *source) Facts(context.Context, bool) []doctor.Facts {
	i.examined++
	return []doctor.Facts{{Peer: "h1"}}
}

// site is a page in front of handlers that note what they get.
type site struct {
	*Page
	public, control told
	ironic          source
	boots           map[string]*api.Boot // by node
	log             *memlog.Log
	wall            time.Time
	users           string // file
	audit           bytes.Buffer
	logins          map[bool]int // that were judged, by whether they were good
}

func hash(t *testing.T, password string) string {
	t.Helper()
	text, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func open(t *testing.T, strategy string) *site {
	t.Helper()
	s := &site{log: memlog.New(t), logins: make(map[bool]int), wall: time.Unix(1_800_000_000, 0),
		users: filepath.Join(t.TempDir(), "users")}
	auth := api.NoAuth()
	if strategy == "http_basic" {
		s.write(t, "root:"+hash(t, "secret")+"\nviewer:"+hash(t, "look")+"\n")
		basic, err := api.NewBasicAuth(s.users, []string{"viewer"}, func() time.Time { return s.wall }, rand.Reader,
			slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		auth = basic
	}
	s.Page = s.peer(t, "h2", auth, strategy)
	return s
}

// peer is the page of another peer of the same cluster.
func (s *site) peer(t *testing.T, name string, auth api.Auth, strategy string) *Page {
	t.Helper()
	p, err := New(Options{
		Logins: api.NewLogins(nil, func(ok bool) { s.logins[ok]++ }, slog.New(slog.NewTextHandler(&s.audit, nil))),
		Public: &s.public, Control: &s.control, Guard: &api.Inspector{Auth: auth}, Strategy: strategy, Peer: name,
		Sources: Sources{View: s.log.View, StaleFor: func() time.Duration { return 4 * time.Second }, Names: &s.ironic,
			Facts: &s.ironic, Boot: func(node string) *api.Boot { return s.boots[node] }},
		Wall: func() time.Time { return s.wall }, Random: rand.Reader, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (s *site) write(t *testing.T, users string) {
	t.Helper()
	if err := os.WriteFile(s.users, []byte(users), 0o600); err != nil {
		t.Fatal(err)
	}
}

// visitor is a browser: it keeps the cookie and shows the token that it was given.
type visitor struct {
	t      *testing.T
	at     http.Handler
	cookie *http.Cookie
	csrf   string
	header http.Header
}

func (v *visitor) do(method, path, body string) *httptest.ResponseRecorder {
	v.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for name, values := range v.header {
		r.Header[name] = values
	}
	if v.cookie != nil {
		r.AddCookie(v.cookie)
	}
	if v.csrf != "" {
		r.Header.Set(csrfHeader, v.csrf)
	}
	w := httptest.NewRecorder()
	v.at.ServeHTTP(w, r)
	return w
}

func (v *visitor) logIn(user, password string) *httptest.ResponseRecorder {
	v.t.Helper()
	w := v.do("POST", "/ui/api/session", fmt.Sprintf(`{"user":%q,"password":%q}`, user, password))
	for _, c := range w.Result().Cookies() {
		v.cookie = c
	}
	var who whoami
	if got := v.do("GET", "/ui/api/session", ""); got.Code == http.StatusOK {
		if err := json.Unmarshal(got.Body.Bytes(), &who); err != nil {
			v.t.Fatal(err)
		}
	}
	v.csrf = who.CSRF
	return w
}

// TestAssets: what a browser loads is small, asks nothing of other sites, and holds
// no script or style in the HTML, which the policy would refuse.
func TestAssets(t *testing.T) {
	const most = 104_000 // bytes of all files together
	total := 0
	names, err := fs.Glob(embedded, "assets/*")
	if err != nil || len(names) < 5 {
		t.Fatalf("%v: %v", names, err)
	}
	inline := regexp.MustCompile(`(?i)\son[a-z]+\s*=|\sstyle\s*=|<style|<script[^>]*>[^<]|javascript:`)
	foreign := regexp.MustCompile(`(?i)(src|href|url\(|import|from|fetch\(|EventSource\()\s*["'=(]*\s*(https?:)?//`)
	parser := regexp.MustCompile(
		`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|createContextualFragment`)
	for _, name := range names {
		text, err := embedded.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		total += len(text)
		code := regexp.MustCompile(`(?m)^\s*//.*$`).ReplaceAll(text, nil)
		if strings.HasSuffix(name, ".html") {
			if found := inline.Find(code); found != nil {
				t.Errorf("%s holds an inline script or style: %q", name, found)
			}
		}
		for _, rule := range []*regexp.Regexp{foreign, parser} {
			if found := rule.Find(code); found != nil {
				t.Errorf("%s: %q", name, found)
			}
		}
	}
	if total > most {
		t.Errorf("the assets have %d bytes, at most %d", total, most)
	}
	t.Logf("%d bytes in %d files", total, len(names))
}

// TestEachPauseHasItsResume: the order to resume all does not end the pause of one cluster, and
// while one cluster is paused the others can be.
func TestEachPauseHasItsResume(t *testing.T) {
	for name, parts := range map[string][]string{
		"lists.js": {`h("button", { onclick: () => resume(app, p.cluster) }`,
			`mayPause(app) ? h("button", { onclick: () => pause(app) }`},
		"actions.js": {`resume = (app, cluster)`, `path: "v1/failover/resume", body: () => ({ cluster })`},
	} {
		text, err := embedded.ReadFile("assets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			if !strings.Contains(string(text), part) {
				t.Errorf("page-resume: %s has no %s", name, part)
			}
		}
	}
}

// TestPageAndItsHeaders: every answer carries the policy, and assets are cached for
// the release that they are of, and no longer.
func TestPageAndItsHeaders(t *testing.T) {
	s := open(t, "noauth")
	v := &visitor{t: t, at: s}
	for _, path := range []string{"/ui/", "/ui/static/" + s.assets.version + "/app.js", "/ui/api/session",
		"/ui/api/machines", "/ui/nothing", "/ui/api/v1/introspection"} {
		w := v.do("GET", path, "")
		csp := w.Header().Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'",
			"base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: the policy lacks %s: %q", path, want, csp)
			}
		}
		if strings.Contains(csp, "unsafe") || w.Header().Get("X-Content-Type-Options") != "nosniff" ||
			w.Header().Get(headerVersion) != s.assets.version || w.Header().Get(headerPeer) != "h2" {
			t.Errorf("%s: %v", path, w.Header())
		}
	}
	index := v.do("GET", "/ui/", "")
	if index.Code != http.StatusOK || !strings.HasPrefix(index.Header().Get("Content-Type"), "text/html") ||
		index.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("the page: %d %v", index.Code, index.Header())
	}
	for path, want := range map[string]string{"/ui/static/" + s.assets.version + "/app.js": "immutable",
		"/ui/static/0123456789ab/app.js": "no-store"} {
		w := v.do("GET", path, "")
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Cache-Control"), want) ||
			!strings.HasPrefix(w.Header().Get("Content-Type"), "text/javascript") {
			t.Errorf("%s: %d %v, want %s", path, w.Code, w.Header(), want)
		}
	}
	for _, path := range []string{"/ui/static/x/index.html", "/ui/static/x/..%2fdoc.go", "/ui/x"} {
		if w := v.do("GET", path, ""); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := v.do("GET", "/ui", ""); w.Code != http.StatusPermanentRedirect || w.Header().Get("Location") != "ui/" {
		t.Errorf("/ui: %d to %q", w.Code, w.Header().Get("Location"))
	}
	if len(s.public.requests) != 1 || s.public.requests[0].URL.Path != "/v1/introspection" {
		t.Errorf("the API got %v", s.public.requests)
	}
}

// TestIndexEscapes: names in the page are text. Its marks stand between quotes, which
// escaping does not let them leave, and each is filled in.
func TestIndexEscapes(t *testing.T) {
	s := open(t, "noauth")
	marks := regexp.MustCompile(`\{\{|\}\}`).FindAllString(s.assets.index, -1)
	quoted := regexp.MustCompile(`="[^"{}]*\{\{[a-z]+\}\}[^"{}]*"`).FindAllString(s.assets.index, -1)
	if len(quoted) == 0 || len(marks) != 2*len(quoted) {
		t.Errorf("%d halves of marks and %d marks in quotes: a mark stands outside of an attribute, or two in one",
			len(marks), len(quoted))
	}
	page := (&visitor{t: t, at: s}).do("GET", "/ui/", "").Body.String()
	for _, want := range []string{`data-strategy="noauth"`, `data-peer="h2"`, `data-version="` + s.assets.version + `"`,
		`src="static/` + s.assets.version + `/app.js"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(page, "{{") {
		t.Errorf("a mark is not filled in: %s", page)
	}
	hostile := s.peer(t, `"><script>alert(1)</script>`, api.NoAuth(), "noauth")
	w := (&visitor{t: t, at: hostile}).do("GET", "/ui/", "")
	if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "<script>alert") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func (s *site) commit(t *testing.T, c fsm.Command) {
	t.Helper()
	if res, err := s.log.DoAsLeader(c); err != nil || res.Err() != nil {
		t.Fatalf("%T: %v, %v", c, err, res.Err())
	}
}

// TestFindings: an examination serves all who ask within a while.
func TestFindings(t *testing.T) {
	s := open(t, "noauth")
	v := &visitor{t: t, at: s}
	for range 3 {
		var got findings
		w := v.do("GET", "/ui/api/findings", "")
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || got.Hosts != 1 ||
			got.Findings == nil {
			t.Fatalf("%d %s: %v", w.Code, w.Body, err)
		}
	}
	s.wall = s.wall.Add(examinedFor)
	if v.do("GET", "/ui/api/findings", ""); s.ironic.examined != 2 {
		t.Errorf("the hosts were examined %d times, want 2", s.ironic.examined)
	}
}

// TestOperationsAreTheControlInterfaces: each path that the page opens is one of
// api.Control, and none changes who may do what.
func TestOperationsAreTheControlInterfaces(t *testing.T) {
	for _, o := range operations() {
		if o.method != http.MethodGet && (o.need != api.RoleAdmin || !o.proved) {
			t.Errorf("%s %s is open to %v, proved %v", o.method, o.path, o.need, o.proved)
		}
		for _, never := range []string{"tokens", "operators", "snapshot", "certificates", "gossip", "settings", "debug",
			"leave", "power"} {
			if slices.Contains(strings.Split(o.path, "/"), never) {
				t.Errorf("the page opens %s", o.path)
			}
		}
	}
}
