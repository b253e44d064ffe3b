package web

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
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

	"github.com/trivet-ha/trivet/fsm/ironicports"

	"golang.org/x/crypto/bcrypt"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/boots"
	"github.com/trivet-ha/trivet/fsm/introspection"
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

// machines of enrolled: 100 were introspected, 10 of which ended in error.
const machines = 120

// enrolled is a page whose Ironic has machines.
func enrolled(t *testing.T) *site {
	t.Helper()
	s := open(t, "noauth")
	ports := ironicports.PutPorts{Complete: true}
	for n := range machines {
		uuid := fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
		s.ironic.nodes = append(s.ironic.nodes, ironic.NodeName{UUID: uuid, Name: fmt.Sprintf("Rack-%d", n)})
		ports.Ports = append(ports.Ports,
			ironicports.Port{ID: fmt.Sprint("p", n), MAC: fmt.Sprintf("52:54:00:00:01:%02x", n), Node: uuid})
		if n >= 100 {
			continue // never introspected
		}
		rec := introspection.ImportRecord{Node: uuid, State: introspection.NodeFinished, StartedMicros: int64(1e15 + n*1e6),
			FinishedMicros: int64(2e15 - n*1e6)}
		if n < 10 {
			rec.State, rec.Error = introspection.NodeError, fmt.Sprintf("%d "+strings.Repeat("é", 400), n)
		}
		packed, err := blobs.Pack(fmt.Appendf(nil, `{"inventory": {"bmc_address": "198.18.7.%d"}, "n": %d}`, n, n))
		if err != nil {
			t.Fatal(err)
		}
		rec.Unprocessed = packed
		s.commit(t, rec)
	}
	s.commit(t, ports)
	return s
}

// TestMachines: the table finds by each name that a machine has, in pages, and goes
// on with old names while Ironic is away.
func TestMachines(t *testing.T) {
	s := enrolled(t)
	for _, c := range []struct {
		query    string
		matching int
		first    string // end of its UUID
		rows     int
	}{
		{"", 120, "", 50},
		{"sort=started&desc=1", 120, "099", 50},
		{"sort=started&desc=1&page=2", 120, "", 20},
		{"sort=finished&state=finished", 90, "099", 50},
		{"sort=name&state=error", 10, "000", 10},
		{"q=rack-77", 1, "077", 1},
		{"q=RACK-77", 1, "077", 1},
		{"q=000000000077", 1, "077", 1},
		{"q=01:4d", 1, "077", 1},
		{"q=01-4D", 1, "077", 1},
		{"q=198.18.7.77", 1, "077", 1},
		{"q=198.18.7", 100, "", 50},
		{"state=never&sort=uuid", 20, "100", 20},
		{"state=never,error", 30, "", 30},
		{"q=nothing", 0, "", 0},
		{"q=rack&page=99", 120, "", 20},
	} {
		var got machineList
		w := (&visitor{t: t, at: s}).do("GET", "/ui/api/machines?"+c.query, "")
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", c.query, w.Code, w.Body)
		}
		if got.Total != machines || got.Matching != c.matching || len(got.Rows) != c.rows || got.States["finished"] != 90 ||
			got.States["error"] != 10 || got.States[neverIntrospected] != 20 || got.Peer != "h2" || got.StaleMS != 4000 {
			t.Errorf("%s: %d of %d, %d rows, %v of %s, stale for %d", c.query, got.Matching, got.Total, len(got.Rows),
				got.States, got.Peer, got.StaleMS)
		}
		if c.first != "" && !strings.HasSuffix(got.Rows[0].UUID, c.first) {
			t.Errorf("%s: the first is %s, want …%s", c.query, got.Rows[0].UUID, c.first)
		}
		for _, row := range got.Rows {
			if len(row.Error) > maxShown+len("…") || len(row.MACs) != 1 {
				t.Errorf("%s: %+v", c.query, row)
			}
		}
	}
	for _, wrong := range []string{"sort=x", "page=-1", "page=x", "q=" + strings.Repeat("a", maxQuery+1)} {
		if w := (&visitor{t: t, at: s}).do("GET", "/ui/api/machines?"+wrong, ""); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", wrong, w.Code)
		}
	}
	if s.ironic.asked != 1 {
		t.Errorf("Ironic was asked %d times within %v", s.ironic.asked, namesAfter)
	}
	s.wall, s.ironic.err = s.wall.Add(namesAfter), errors.New("Ironic is away")
	var got machineList
	if err := json.Unmarshal((&visitor{t: t, at: s}).do("GET", "/ui/api/machines?q=rack-77&desc=1", "").Body.Bytes(),
		&got); err != nil || got.Matching != 1 || got.Problem == "" {
		t.Errorf("while Ironic is away: %+v, %v", got, err)
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

// TestBMCAddresses: what is no document of a ramdisk has no address, and what was not
// read within the bound of one search is read by the next.
func TestBMCAddresses(t *testing.T) {
	for document, want := range map[string]string{
		`{"inventory": {"bmc_address": "2001:DB8::9"}}`: "2001:db8::9", `{"inventory": {}}`: "",
		`{"inventory": {"bmc_address": 7}}`: "error",
		`{"inventory": 3}`:                  "error", `[]`: "error", `{}`: "error",
	} {
		told, err := addressesOf([]byte(document))
		got := told.bmc
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", document, got, want)
		}
	}
	s := open(t, "noauth")
	large := strings.Repeat("x", 6<<20)
	const documents = 8 // the bound is met with six
	for n := range documents {
		packed, err := blobs.Pack(fmt.Appendf(nil, `{"inventory": {"bmc_address": "198.18.7.%d"}, "n": %q}`, n, large))
		if err != nil {
			t.Fatal(err)
		}
		s.commit(t, introspection.ImportRecord{Node: fmt.Sprintf("00000000-0000-4000-8000-%012d", n),
			State: introspection.NodeFinished, FinishedMicros: 2e15, Unprocessed: packed})
	}
	for round, want := range []int{documents - 6, 0} {
		found, left := s.book.search(s.log.View(), "198.18.7.")
		if left != want || len(found) != documents-want {
			t.Errorf("search %d: %d found, %d left, want %d left", round, len(found), left, want)
		}
	}
}

// TestNames: a sentence has UUIDs of nodes, and the page shows each node's name beside its own.
func TestNames(t *testing.T) {
	s := enrolled(t)
	v := &visitor{t: t, at: s}
	ask := func(nodes ...string) map[string]string {
		t.Helper()
		var got nameList
		w := v.do("GET", "/ui/api/names?node="+strings.Join(nodes, ","), "")
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%v: %d %s", nodes, w.Code, w.Body)
		}
		return got.Names
	}
	const known, other, unknown = "00000000-0000-4000-8000-000000000077", "00000000-0000-4000-8000-000000000078",
		"ffffffff-0000-4000-8000-000000000077"
	want := map[string]string{known: "Rack-77", other: "Rack-78"}
	if got := ask(known, strings.ToUpper(unknown), other, "", "no-uuid"); !maps.Equal(got, want) {
		t.Errorf("names: %v, want %v", got, want)
	}
	s.wall, s.ironic.err = s.wall.Add(namesAfter), errors.New("Ironic is away")
	if got := ask(known); got[known] != "Rack-77" {
		t.Errorf("while Ironic is away: %v", got)
	}
	many := slices.Repeat([]string{known}, maxNamed+1)
	if w := v.do("GET", "/ui/api/names?node="+strings.Join(many, ","), ""); w.Code != http.StatusBadRequest {
		t.Errorf("%d names: %d", len(many), w.Code)
	}
}

// TestAddressesOutliveTheIntrospection: a record has its MACs only while the introspection is
// under way; afterwards the document has them, or what was heard of the boot.
func TestAddressesOutliveTheIntrospection(t *testing.T) {
	s := open(t, "noauth")
	node := func(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }
	packed, err := blobs.Pack([]byte(`{"inventory": {"bmc_address": "198.18.7.1", "interfaces": [
		{"mac_address": "52:54:00:00:00:0A"}, 7, {"mac_address": 7}, {"mac_address": "none"}, {"mac_address": "52:54:00:00:00:0b"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	s.commit(t, introspection.ImportRecord{Node: node(1), State: introspection.NodeFinished, FinishedMicros: 2e15,
		Unprocessed: packed})
	s.commit(t, introspection.ImportRecord{Node: node(2), State: introspection.NodeError, FinishedMicros: 1e15,
		Error: "Introspection timeout"})
	s.commit(t, boots.Note{Heard: []boots.Heard{{Node: node(2), Step: boots.Step{Kind: boots.Asked,
		Times: boots.Times{FirstMillis: 1, LastMillis: 1, Count: 1}, Peer: "a", MAC: "52:54:00:00:00:0c"}}}})
	var got machineList
	w := (&visitor{t: t, at: s}).do("GET", "/ui/api/machines?sort=uuid", "")
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Rows) != 2 {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	for i, want := range []machine{{MACs: []string{"52:54:00:00:00:0a", "52:54:00:00:00:0b"}, BMC: []string{"198.18.7.1"}},
		{MACs: []string{"52:54:00:00:00:0c"}}} {
		if row := got.Rows[i]; !slices.Equal(row.MACs, want.MACs) || !slices.Equal(row.BMC, want.BMC) {
			t.Errorf("addresses-after-the-end: row %d has %v, BMC %v, want %v, BMC %v", i, row.MACs, row.BMC, want.MACs, want.BMC)
		}
	}
}

// TestFailedMachinesHaveARemedy: what a machine failed for stands with what to do about it, the
// finding of its boot first.
func TestFailedMachinesHaveARemedy(t *testing.T) {
	s := enrolled(t)
	uuid := func(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }
	heard := &api.Boot{Findings: []api.BootFinding{{Text: "no server offered it one", Remedy: "look at dnsmasq"}, {Text: "later"}}}
	s.boots = map[string]*api.Boot{uuid(200): heard, uuid(201): {}, uuid(202): heard, uuid(50): heard}
	for i, reason := range []string{"Introspection timeout", "Introspection timeout", "Canceled by operator"} {
		s.commit(t, introspection.ImportRecord{Node: uuid(200 + i), State: introspection.NodeError, FinishedMicros: 1e15,
			Error: reason})
	}
	var got machineList
	w := (&visitor{t: t, at: s}).do("GET", "/ui/api/machines?sort=uuid&state=error,finished&desc=1", "")
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Rows) != pageSize {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	for _, row := range got.Rows {
		want := ""
		switch row.UUID {
		case uuid(200):
			want = "no server offered it one: look at dnsmasq"
		case uuid(201):
			want = ": the machine did not call in time"
		case uuid(202):
			want = ": an operator aborted it"
		}
		said := ""
		if row.Why != nil {
			said = row.Why.Finding + ": " + row.Why.Remedy
		}
		if (said == "") != (want == "") || !strings.HasPrefix(said, want) {
			t.Errorf("remedy-of-a-failed-machine: %s is %s: %q, want %q", row.UUID, row.State, said, want)
		}
	}
	w = (&visitor{t: t, at: s}).do("GET", "/ui/api/machines?sort=uuid&state=error", "")
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Rows[0].Why == nil ||
		!strings.Contains(got.Rows[0].Why.Remedy, "trivet introspection start Rack-0") {
		t.Errorf("remedy-of-a-failed-machine: of any other error: %+v, %v", got.Rows[0].Why, err)
	}
}
