//go:build e2e

// Package wiretap is a proxy that writes down what a server is asked, and spoils it
// as a test says.
package wiretap

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// tapBody bounds a request's body, which the tap reads whole.
const tapBody = 16 << 20

// Tap is a proxy in front of a server: it writes down what every caller sends,
// and spoils it as told (see Fault). A caller is known by the door it comes in
// through, a listening port of its own. All methods may be called from several
// goroutines.
type Tap struct {
	t      testing.TB
	proxy  *httputil.ReverseProxy
	pool   *http.Transport
	server atomic.Pointer[url.URL]

	mu      sync.Mutex
	doors   []*http.Server
	calls   []*Call
	faults  []*Injected
	watcher func(Call)
}

// Call is one request that came to a tap.
type Call struct {
	Began  time.Time
	Took   time.Duration // 0 while it is under way
	Door   string
	Method string
	Path   string // with the query
	Body   []byte
	Passed bool // on to the server
	Status int  // answered to the caller; 0: nothing was
}

// New returns a tap in front of the server at host:port, without a door. It
// is closed when the test ends.
func New(t testing.TB, server string) *Tap {
	tap := &Tap{t: t, pool: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 10 * time.Second}}
	tap.Aim(server)
	tap.proxy = &httputil.ReverseProxy{
		Transport: tap.pool,
		ErrorLog:  log.New(io.Discard, "", 0), // faults are meant; the calls tell
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(tap.server.Load())
			r.Out.Host = r.In.Host // links in the answer lead back to the door
		},
		// A server that does not answer shall look like one, not like a 502.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	t.Cleanup(tap.close)
	return tap
}

// Aim puts the tap in front of another server, for calls that come from now on.
func (tap *Tap) Aim(server string) { tap.server.Store(&url.URL{Scheme: "http", Host: server}) }

// Door opens one more way to the server and returns its host:port. An addr with
// port 0 takes any free port.
func (tap *Tap) Door(name, addr string) string {
	tap.t.Helper()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		tap.t.Fatalf("tap: door of %s: %v", name, err)
	}
	door := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { tap.serve(name, w, r) }),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	tap.mu.Lock()
	tap.doors = append(tap.doors, door)
	tap.mu.Unlock()
	go func() { _ = door.Serve(listener) }() // ends with close, and says no more than that
	return listener.Addr().String()
}

func (tap *Tap) close() {
	tap.Heal()
	tap.mu.Lock()
	doors := tap.doors
	tap.mu.Unlock()
	for _, door := range doors {
		_ = door.Close() // what is under way is of no interest any more
	}
	tap.pool.CloseIdleConnections()
}

// answer notes the status that a caller was given.
type answer struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find what is inside.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (tap *Tap) serve(door string, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, tapBody))
	if err != nil {
		panic(http.ErrAbortHandler) // the caller went away
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	call, fault := tap.enter(&Call{Began: time.Now(), Door: door, Method: r.Method, Path: r.URL.RequestURI(), Body: body})
	out := &answer{ResponseWriter: w}
	defer func() { tap.leave(call, out.status) }() // also when a cut panics
	fault.apply(out, r, func(w http.ResponseWriter) {
		tap.mu.Lock()
		call.Passed = true
		tap.mu.Unlock()
		tap.proxy.ServeHTTP(w, r)
	})
}

// enter writes the call down and finds the fault that it meets, nil if none.
func (tap *Tap) enter(call *Call) (*Call, *Injected) {
	tap.mu.Lock()
	defer tap.mu.Unlock()
	tap.calls = append(tap.calls, call)
	for _, x := range tap.faults {
		if x.takes(call) {
			return call, x
		}
	}
	return call, nil
}

func (tap *Tap) leave(call *Call, status int) {
	tap.mu.Lock()
	call.Status, call.Took = status, time.Since(call.Began)
	done, watcher := *call, tap.watcher
	tap.mu.Unlock()
	if watcher != nil {
		watcher(done)
	}
}

// Watch calls f with every call that has ended, on the goroutine of that call;
// nil ends it.
func (tap *Tap) Watch(f func(Call)) {
	tap.mu.Lock()
	defer tap.mu.Unlock()
	tap.watcher = f
}

// Inject adds a fault. When several match a call, the oldest is met.
func (tap *Tap) Inject(f Fault) *Injected {
	tap.t.Helper()
	path, err := regexp.Compile(f.Path)
	if err != nil {
		tap.t.Fatalf("tap: %v", err)
	}
	ctx, lift := context.WithCancel(context.Background())
	x := &Injected{Fault: f, path: path, lifted: ctx, Lift: lift}
	tap.mu.Lock()
	defer tap.mu.Unlock()
	tap.faults = append(tap.faults, x)
	return x
}

// Heal lifts every fault.
func (tap *Tap) Heal() {
	tap.mu.Lock()
	defer tap.mu.Unlock()
	for _, x := range tap.faults {
		x.Lift()
	}
	tap.faults = nil
}

// Calls lists what came since a moment, oldest first, if it matches a method
// and an expression for the path; "" matches all.
func (tap *Tap) Calls(since time.Time, method, path string) []Call {
	tap.t.Helper()
	re, err := regexp.Compile(path)
	if err != nil {
		tap.t.Fatalf("tap: %v", err)
	}
	tap.mu.Lock()
	defer tap.mu.Unlock()
	var out []Call
	for _, c := range tap.calls {
		if !c.Began.Before(since) && (method == "" || c.Method == method) && re.MatchString(c.Path) {
			out = append(out, *c)
		}
	}
	return out
}

// Forget empties the list of calls.
func (tap *Tap) Forget() {
	tap.mu.Lock()
	defer tap.mu.Unlock()
	tap.calls = nil
}

// powerPath is where a node's power is set.
const powerPath = `^/v1/nodes/([^/]+)/states/power$`

// Power returns which node a call switches, and to what; "" when it is none
// of that kind.
func (c Call) Power() (node, target string) {
	found := regexp.MustCompile(powerPath).FindStringSubmatch(c.Path)
	if c.Method != http.MethodPut || found == nil {
		return "", ""
	}
	var in struct{ Target string }
	if json.Unmarshal(c.Body, &in) != nil {
		return "", ""
	}
	return found[1], in.Target
}

// PowerCalls counts, by node, the calls that set the power to target, whether
// or not they reached the server.
func (tap *Tap) PowerCalls(target string) map[string]int {
	tap.t.Helper()
	count := make(map[string]int)
	for _, c := range tap.Calls(time.Time{}, http.MethodPut, powerPath) {
		if node, to := c.Power(); to == target {
			count[node]++
		}
	}
	return count
}
