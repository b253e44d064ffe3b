package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/trivet-ha/trivet/cli/term"
)

// fakeAPI is the wire contract over a map, with the faults that a test asks
// for. Its machines take the time that the test says; names of nodes say how it
// ends: one that contains "bad" in error, "silent" never, "stuck" does not even get to wait.
type fakeAPI struct {
	takes    time.Duration // from start to end
	maxLimit int           // of a page

	// fault, unless nil, may answer in the place of the API, or panic with
	// http.ErrAbortHandler to cut the connection; it returns whether it did.
	// before runs first, after once the request was carried out.
	before, after func(w http.ResponseWriter, r *http.Request) bool

	mu    sync.Mutex
	nodes map[string]*fakeNode // by UUID
	asked []string             // "METHOD path?query", in the order they came
	rules []map[string]any     // in the order of their creation
}

type fakeNode struct {
	name    string
	started time.Time
	aborted time.Time // zero: it was not
}

// stampLayout is how the contract writes times: UTC, the zone not written.
const stampLayout = "2006-01-02T15:04:05.000000"

func newFakeAPI() *fakeAPI {
	return &fakeAPI{takes: 30 * time.Second, maxLimit: 1000, nodes: make(map[string]*fakeNode)}
}

// id is the UUID of a node that has a name.
func id(name string) string { return uuid.NewSHA1(uuid.NameSpaceDNS, []byte(name)).String() }

// add makes a node whose introspection started a while ago.
func (f *fakeAPI) add(name string, ago time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes[id(name)] = &fakeNode{name: name, started: time.Now().Add(-ago)}
}

// count returns how many questions began like this.
func (f *fakeAPI) count(prefix string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, asked := range f.asked {
		if strings.HasPrefix(asked, prefix) {
			n++
		}
	}
	return n
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked = append(f.asked, r.Method+" "+r.URL.RequestURI())
	f.mu.Unlock()
	if f.before != nil && f.before(w, r) {
		return
	}
	rec := httptest.NewRecorder()
	f.serve(rec, r)
	if f.after != nil && f.after(w, r) {
		return
	}
	maps.Copy(w.Header(), rec.Header())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	w.WriteHeader(rec.Code)
	_, _ = rec.Body.WriteTo(w) // the client may be gone
}

func (f *fakeAPI) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if rule, ok := strings.CutPrefix(r.URL.Path, "/v1/rules"); ok {
		f.serveRules(w, r, strings.TrimPrefix(rule, "/"))
		return
	}
	if ref, ok := strings.CutPrefix(r.URL.Path, "/v1/nodes"); ok {
		if node, what, ok := strings.Cut(strings.TrimPrefix(ref, "/"), "/"); ok {
			if _, err := uuid.Parse(node); err != nil {
				node = id(node)
			}
			f.serveHardware(w, f.nodes[node], what)
			return
		}
		if r.URL.Query().Get("stopped") == "true" {
			f.serveStopped(w, r.URL.Query().Get("marker"))
			return
		}
		f.serveNames(w, strings.TrimPrefix(ref, "/"))
		return
	}
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/introspection"), "/")[1:]
	if len(path) == 0 {
		f.list(w, r)
		return
	}
	ref := path[0]
	if _, err := uuid.Parse(ref); err != nil {
		ref = id(ref)
	}
	n := f.nodes[ref]
	switch what := r.Method + " " + strings.Join(path[1:], "/"); {
	case strings.Contains(path[0], "nobody"):
		say(w, 404, "Node "+path[0]+" was not found in Ironic")
	case what == "POST ":
		f.start(w, path[0], ref, n)
	case n == nil:
		say(w, 404, "Could not find node "+ref+" in cache")
	case what == "GET ":
		if strings.Contains(n.name, "bad") {
			w.Header().Set("X-Trivet-Ramdisk-Logs", "h2:/var/log/trivet/"+n.name+".tar.gz")
		}
		answerJSON(w, 200, f.status(ref, n))
	case what == "POST abort":
		if s := f.status(ref, n); s["state"] == "waiting" {
			n.aborted = time.Now()
		}
		answerJSON(w, 202, map[string]any{})
	case what == "POST data/unprocessed":
		if body, _ := io.ReadAll(r.Body); len(body) > 0 && body[0] != '{' {
			say(w, 400, "Invalid data: expected a JSON object, got list")
			return
		}
		answerJSON(w, 202, map[string]any{})
	case what == "GET data":
		answerJSON(w, 200, map[string]any{"node": n.name})
	case what == "GET data/unprocessed":
		answerJSON(w, 200, map[string]any{"raw": n.name})
	default:
		say(w, 404, "404 Not Found")
	}
}

func (f *fakeAPI) start(w http.ResponseWriter, name, ref string, n *fakeNode) {
	if n != nil && f.status(ref, n)["state"] == "starting" {
		say(w, 400, "Can not transition from state 'starting' on event 'start' (no defined transition)")
		return
	}
	f.nodes[ref] = &fakeNode{name: name, started: time.Now()}
	answerJSON(w, 202, map[string]any{})
}

// status is not hermetic: introspections of this fake go on by the clock, and no test
// judges for how long.
func (f *fakeAPI) status(ref string, n *fakeNode) map[string]any {
	out := map[string]any{"uuid": ref, "state": "waiting", "finished": false, "error": nil, "finished_at": nil,
		"started_at": n.started.UTC().Format(stampLayout),
		"links":      []any{map[string]any{"rel": "self", "href": "http://x/v1/introspection/" + ref}}}
	end := func(at time.Time, state string, why any) {
		out["state"], out["finished"], out["error"], out["finished_at"] = state, true, why, at.UTC().Format(stampLayout)
	}
	switch age := time.Since(n.started); {
	case !n.aborted.IsZero():
		end(n.aborted, "error", "Canceled by operator")
	case strings.Contains(n.name, "silent"):
	case age < f.takes/10, strings.Contains(n.name, "stuck"):
		out["state"] = "starting"
	case age >= f.takes && strings.Contains(n.name, "bad"):
		end(n.started.Add(f.takes), "error", "Ramdisk reported error: \x1b[31mno\ndisk")
	case age >= f.takes:
		end(n.started.Add(f.takes), "finished", nil)
	}
	return out
}

func (f *fakeAPI) list(w http.ResponseWriter, r *http.Request) {
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	if limit > f.maxLimit {
		say(w, 400, fmt.Sprintf("Bad request: Limit over %d", f.maxLimit))
		return
	}
	if limit == 0 {
		limit = f.maxLimit
	}
	ids := make([]string, 0, len(f.nodes))
	for ref := range f.nodes {
		ids = append(ids, ref)
	}
	slices.SortFunc(ids, func(a, b string) int {
		if c := f.nodes[b].started.Compare(f.nodes[a].started); c != 0 {
			return c
		}
		return strings.Compare(b, a)
	})
	if marker := r.URL.Query().Get("marker"); marker != "" {
		at := slices.Index(ids, marker)
		if at < 0 {
			say(w, 404, "Node not found for marker: None")
			return
		}
		ids = ids[at+1:]
	}
	rows := []map[string]any{}
	for _, ref := range ids {
		s := f.status(ref, f.nodes[ref])
		states := r.URL.Query().Get("state")
		if len(rows) < limit && (states == "" || slices.Contains(strings.Split(states, ","), s["state"].(string))) {
			rows = append(rows, s)
		}
	}
	answerJSON(w, 200, map[string]any{"introspection": rows})
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(err)
	}
}

// say refuses in the contract's shape.
func say(w http.ResponseWriter, status int, message string) {
	answerJSON(w, status, map[string]any{"error": map[string]any{"message": message}})
}

// hosts is a network in memory, for virtual time: handlers by host and port. A
// host that is nil refuses connections; so does one that is not there.
type hosts map[string]http.Handler

var errReset = fmt.Errorf("read tcp: %w", syscall.ECONNRESET)

// RoundTrip implements http.RoundTripper. A handler that panics with
// http.ErrAbortHandler cuts the connection after the request arrived.
func (h hosts) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	handler := h[r.URL.Host]
	if handler == nil {
		return nil, fmt.Errorf("dial tcp: %w", syscall.ECONNREFUSED)
	}
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil {
		trace.WroteHeaders()
	}
	done := make(chan struct{}) // closed when the handler has returned
	rec := httptest.NewRecorder()
	go func() {
		defer close(done)
		defer func() {
			if cut, ok := recover().(error); ok && errors.Is(cut, http.ErrAbortHandler) {
				rec = nil
			}
		}()
		handler.ServeHTTP(rec, r)
	}()
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-done:
	}
	if rec == nil {
		return nil, errReset
	}
	resp = rec.Result()
	resp.Request = r
	return resp, nil
}

// hang answers nothing until the client goes away.
func hang(_ http.ResponseWriter, r *http.Request) bool {
	<-r.Context().Done()
	return true
}

func cut(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }

// first applies a fault to the first n requests of a method.
func first(n int, method string, fault func(http.ResponseWriter, *http.Request) bool) func(http.ResponseWriter,
	*http.Request) bool {
	var mu sync.Mutex
	return func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		hit := r.Method == method && n > 0
		if hit {
			n--
		}
		mu.Unlock()
		return hit && fault(w, r)
	}
}

// unavailable is what a peer without a leader answers.
func unavailable(w http.ResponseWriter, _ *http.Request) bool {
	w.Header().Set("Retry-After", "1")
	say(w, 503, "no leader")
	return true
}

// zeroes is randomness that is none: spread gives half of what it may.
type zeroes struct{}

// Read implements io.Reader.
func (zeroes) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// spoken is what a command said, and its exit code.
type spoken struct {
	out, talk string
	code      int
}

// trivetOn runs a command against a network in memory.
func trivetOn(ctx context.Context, network http.RoundTripper, in string, words ...string) spoken {
	var out, talk bytes.Buffer
	p := &program{Terminal: &term.Terminal{In: strings.NewReader(in), Out: &out, Err: &talk, Wall: time.Now,
		Random: zeroes{}, Transport: network}}
	code := p.run(ctx, words)
	return spoken{out.String(), talk.String(), code}
}

// want fails the test unless a command ended as it should, and both outputs
// hold the texts: those that begin with "!" they must not.
func (s spoken) want(t *testing.T, code int, texts ...string) {
	t.Helper()
	if s.code != code {
		t.Errorf("exit %d, want %d", s.code, code)
	}
	all := s.out + s.talk
	for _, text := range texts {
		if forbidden, not := strings.CutPrefix(text, "!"); not && strings.Contains(all, forbidden) ||
			!not && !strings.Contains(all, text) {
			t.Errorf("said %q: want %q", all, text)
		}
	}
	if code != 0 && !strings.Contains(s.talk, "trivet: hint: ") {
		t.Errorf("a failure without a hint: %q", s.talk)
	}
}

// startFakeAPI serves the contract to a script: fake-api [NODE…] makes nodes
// whose introspections started a minute ago each, and names the server.
func startFakeAPI(ts *testscript.TestScript, _ bool, names []string) {
	api := newFakeAPI()
	api.takes = 500 * time.Millisecond
	for i, name := range names {
		api.add(name, time.Duration(i+1)*time.Minute)
	}
	server := httptest.NewServer(api)
	ts.Defer(server.Close)
	ts.Setenv("TRIVET_SERVER", server.URL)
}

// serveNames tells the names of all nodes, or of one.
func (f *fakeAPI) serveNames(w http.ResponseWriter, ref string) {
	type name struct {
		UUID string `json:"uuid"`
		Name string `json:"name"`
	}
	if n := f.nodes[ref]; n != nil {
		answerJSON(w, 200, name{ref, n.name})
		return
	}
	if ref != "" {
		say(w, 404, "Node "+ref+" was not found in Ironic")
		return
	}
	all := []name{}
	for _, uuid := range slices.Sorted(maps.Keys(f.nodes)) {
		all = append(all, name{uuid, f.nodes[uuid].name})
	}
	answerJSON(w, 200, map[string]any{"nodes": all})
}

// notFetched is what stops machines of nodes called silent.
var notFetched = map[string]any{"code": "not-fetched", "text": "it asked for no \x1b[31mfile",
	"remedy": "UDP 69 must be open"}

// serveStopped lists the nodes called silent.
func (f *fakeAPI) serveStopped(w http.ResponseWriter, marker string) {
	all := []any{}
	for _, uuid := range slices.Sorted(maps.Keys(f.nodes)) {
		if strings.Contains(f.nodes[uuid].name, "silent") && uuid > marker {
			all = append(all, map[string]any{"uuid": uuid, "findings": []any{notFetched}})
		}
	}
	answerJSON(w, 200, map[string]any{"nodes": all})
}

// serveHardware says what changed of a node, and where it is plugged in: of nodes
// called first, which were inspected once, there is nothing to compare.
func (f *fakeAPI) serveHardware(w http.ResponseWriter, n *fakeNode, what string) {
	switch {
	case n == nil || strings.Contains(n.name, "silent"):
		say(w, 404, "Introspection data not found for node x, processed=False")
	case what == "changes" && strings.Contains(n.name, "first"):
		answerJSON(w, 200, map[string]any{"compared": false, "changes": []any{}})
	case what == "changes":
		part := map[string]any{"kind": "disk", "id": "S1"}
		answerJSON(w, 200, map[string]any{"compared": true,
			"changes": []any{map[string]any{"change": "went", "part": part, "text": "disk S1\x1b[31m went"}}})
	default:
		answerJSON(w, 200, map[string]any{
			"cables": []any{map[string]any{"interface": "eth0", "mac": "52:54:00:00:00:01", "link": "yes", "speed_mbps": "10000",
				"switch": "leaf-1, left", "switch_id": "00:1b:54:aa:00:01", "port": "Ethernet1/3", "vlan": ""}}})
	}
}
