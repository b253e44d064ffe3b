package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// A failedStart is one cause for which trivet serve cannot start.
type failedStart struct {
	part string // of app.StartParts; empty: before a peer is made
	name string // of the cause
	code int
	// break makes the cause and returns what removes it.
	cause func(h *startHost) (heal func())
}

// impossible are the parts whose failure no operator can cause, and why.
var impossible = map[string]string{
	"PXE filter":      "a host without a filter serves, and tries again",
	"floating IP":     "the configuration is checked for the same before",
	"peers' requests": "HTTP/2 is set up in memory",
	"background work": "goroutines are started",
}

var failedStarts = []failedStart{
	{"", "no peer lives in the data directory", term.ExitUsage,
		func(h *startHost) func() { return h.set("TRIVET_DATA_DIR", h.path("other")) }},
	{"", "the data directory is locked", term.ExitConflict, func(h *startHost) func() {
		dir, err := datadir.Open(h.path("d"))
		h.check(err)
		return func() { h.check(dir.Close()) }
	}},
	{"", "its join was not finished", term.ExitUsage,
		func(h *startHost) func() { return h.replace("d/peer/joined.json", "{}") }},
	{"identity", "peer.json is damaged", term.ExitFailed,
		func(h *startHost) func() { return h.replace("d/peer/peer.json", "{") }},
	{"identity", "the certificate is damaged", term.ExitFailed,
		func(h *startHost) func() { return h.replace("d/peer/credentials.pem", "x") }},
	{"identity", "the gossip keys are damaged", term.ExitFailed,
		func(h *startHost) func() { return h.replace("d/peer/gossip.key", "x") }},
	{"inspection settings", "there is no such hook", term.ExitFailed, func(h *startHost) func() {
		return h.set("TRIVET_INSPECTION_PROCESSING_PROCESSING_HOOKS", "nosuch")
	}},
	{"API users", "the users file is missing", term.ExitFailed, func(h *startHost) func() {
		return h.set("TRIVET_API_AUTH_STRATEGY", "http_basic", "TRIVET_API_HTTP_BASIC_AUTH_USER_FILE", h.path("users"))
	}},
	{"API certificate", "the certificate is no certificate", term.ExitFailed, func(h *startHost) func() {
		h.check(os.WriteFile(h.path("cert"), []byte("x"), 0o600))
		return h.set("TRIVET_API_TLS_CERTIFICATE", "files", "TRIVET_API_TLS_CERT_FILE", h.path("cert"),
			"TRIVET_API_TLS_KEY_FILE", h.path("cert"))
	}},
	{"Ironic client", "the CA file is missing", term.ExitFailed,
		func(h *startHost) func() { return h.set("TRIVET_IRONIC_CA_FILE", h.path("ca")) }},
	{"worker notes", "a directory is in the way", term.ExitFailed,
		func(h *startHost) func() { return h.inTheWay("d/peer/workers") }},
	{"failover", "the fence file is missing", term.ExitFailed, func(h *startHost) func() {
		return h.set("TRIVET_FAILOVER_MODE", "safe", "TRIVET_FAILOVER_KUBECONFIGS", "prod="+h.path("kubeconfig"),
			"TRIVET_FAILOVER_FENCE_FILE", h.path("fence"))
	}},
	{"haconfig", "the kubeconfig is missing", term.ExitFailed,
		func(h *startHost) func() { return h.set("TRIVET_HACONFIG_KUBECONFIGS", "prod="+h.path("nothing")) }},
	{"receivers of events", "the secret is missing", term.ExitFailed, func(h *startHost) func() {
		return h.set("TRIVET_EVENTS_RECEIVERS", "cmdb=https://receiver.example/", "TRIVET_EVENTS_SECRETS",
			"cmdb="+h.path("nothing"))
	}},
	{"cluster port", "it is taken", term.ExitFailed, func(h *startHost) func() { return h.take("tcp", h.cluster) }},
	{"log", "it is damaged", term.ExitFailed,
		func(h *startHost) func() { return h.replace("d/peer/raft/log.db", strings.Repeat("x", 1<<16)) }},
	{"log", "its write-ahead log is damaged", term.ExitFailed,
		func(h *startHost) func() { return h.replace("d/peer/raft/wal-0", "x") }},
	{"log", "its snapshots are no directory", term.ExitFailed, func(h *startHost) func() {
		h.check(os.Rename(h.path("d/peer/raft/snapshots"), h.path("snapshots")))
		heal := h.replace("d/peer/raft/snapshots", "")
		return func() { heal(); h.check(os.Rename(h.path("snapshots"), h.path("d/peer/raft/snapshots"))) }
	}},
	{"gossip", "its TCP port is taken", term.ExitFailed, func(h *startHost) func() { return h.take("tcp", h.gossip) }},
	{"gossip", "its UDP port is taken", term.ExitFailed, func(h *startHost) func() { return h.take("udp", h.gossip) }},
	{"API", "its port is taken", term.ExitFailed, func(h *startHost) func() { return h.take("tcp", h.api) }},
	{"API", "the address is not of this host", term.ExitFailed, func(h *startHost) func() {
		return h.set("TRIVET_API_LISTEN", "192.0.2.77:5050", "TRIVET_API_AUTH_STRATEGY", "noauth")
	}},
	{"webhook", "its port is taken", term.ExitFailed, func(h *startHost) func() {
		heal := h.take("tcp", h.other)
		back := h.set("TRIVET_HACONFIG_KUBECONFIGS", "prod="+h.path("kubeconfig"), "TRIVET_HACONFIG_LISTEN", h.other)
		return func() { heal(); back() }
	}},
	{"elections", "its port is taken", term.ExitFailed, func(h *startHost) func() {
		heal := h.take("tcp", h.other)
		back := h.set("TRIVET_LEASE_ENABLED", "true", "TRIVET_ELECTOR_LISTEN", "raft="+h.other)
		return func() { heal(); back() }
	}},
	{"socket", "a file is in the way", term.ExitFailed, func(h *startHost) func() { return h.replace("s", "precious") }},
	{"socket", "a process answers there", term.ExitFailed,
		func(h *startHost) func() { return h.take("unix", h.path("s")) }},
	{"socket", "its directory is none", term.ExitFailed,
		func(h *startHost) func() { return h.set("TRIVET_SOCKET", h.path("kubeconfig/s")) }},
}

// startHost is the host of one peer, which runs in the process of the test.
type startHost struct {
	t                           *testing.T
	dir                         string
	env                         map[string]string
	api, cluster, gossip, other string
}

func newStartHost(t *testing.T) *startHost {
	t.Helper()
	h := &startHost{t: t, dir: t.TempDir(), api: testenv.FreePort(t), cluster: testenv.FreePort(t),
		gossip: testenv.FreePort(t), other: testenv.FreePort(t)}
	h.env = map[string]string{
		"TRIVET_CONFIG": "/dev/null", "TRIVET_NAME": "h1", "TRIVET_FIREWALL_DRIVER": "noop", "TRIVET_DATA_DIR": h.path("d"),
		"TRIVET_SOCKET":     h.path("s"),
		"TRIVET_API_LISTEN": h.api, "TRIVET_CLUSTER_LISTEN": h.cluster, "TRIVET_GOSSIP_LISTEN": h.gossip,
	}
	h.check(os.WriteFile(h.path("kubeconfig"), []byte(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}], users: [{name: a, user: {}}]}`), 0o600))
	if code, talk := h.run(t.Context(), nil, "init", "-q"); code != term.ExitOK {
		t.Fatalf("trivet init: exit %d\n%s", code, talk)
	}
	return h
}

func (h *startHost) path(name string) string { return filepath.Join(h.dir, name) }

func (h *startHost) check(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// run runs one command in this process. saying is called with what it has said.
func (h *startHost) run(ctx context.Context, saying func(text string), args ...string) (code int, talk string) {
	h.t.Helper()
	errw := &said{saying: saying}
	p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: new(bytes.Buffer), Err: errw, Wall: time.Now,
		Random: rand.Reader}, exit: func(code int) {
		h.t.Errorf("trivet %v ended its process with exit code %d", args, code)
	}}
	for key, value := range h.env {
		p.Env = append(p.Env, key+"="+value)
	}
	code = p.run(ctx, args)
	return code, errw.String()
}

// said keeps what a command says.
type said struct {
	saying func(text string)

	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(b)
	if s.saying != nil {
		s.saying(s.text.String())
	}
	return len(b), nil
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// set changes the environment.
func (h *startHost) set(keysAndValues ...string) (heal func()) {
	was := make(map[string]string)
	for pair := range slices.Chunk(keysAndValues, 2) {
		was[pair[0]] = h.env[pair[0]]
		h.env[pair[0]] = pair[1]
	}
	return func() {
		for key, value := range was {
			if h.env[key] = value; value == "" {
				delete(h.env, key)
			}
		}
	}
}

// replace gives a file another content.
func (h *startHost) replace(name, text string) (heal func()) {
	h.t.Helper()
	was, err := os.ReadFile(h.path(name))
	existed := err == nil
	h.check(os.WriteFile(h.path(name), []byte(text), 0o600))
	return func() {
		now, err := os.ReadFile(h.path(name))
		h.check(err)
		if string(now) != text {
			h.t.Errorf("%s was changed by a start that failed", name)
		}
		if !existed {
			h.check(os.Remove(h.path(name)))
			return
		}
		h.check(os.WriteFile(h.path(name), was, 0o600))
	}
}

// inTheWay puts a directory in the place of a file.
func (h *startHost) inTheWay(name string) (heal func()) {
	h.t.Helper()
	h.check(os.Rename(h.path(name), h.path("aside")))
	h.check(os.Mkdir(h.path(name), 0o700))
	return func() {
		h.check(os.Remove(h.path(name)))
		h.check(os.Rename(h.path("aside"), h.path(name)))
	}
}

// take listens on an address as another program does; not hermetic: the test has
// reserved the port that the peer is about to use.
func (h *startHost) take(network, address string) (heal func()) {
	h.t.Helper()
	if network == "udp" {
		conn, err := net.ListenPacket(network, address)
		h.check(err)
		return func() { h.check(conn.Close()) }
	}
	ln, err := net.Listen(network, address)
	h.check(err)
	return func() { h.check(ln.Close()) }
}

// serves starts the peer and stops it as soon as it serves.
func (h *startHost) serves() {
	h.t.Helper()
	ctx, stop := context.WithTimeout(h.t.Context(), testwait.Bound(time.Minute))
	defer stop()
	serving := false
	code, talk := h.run(ctx, func(text string) {
		if strings.Contains(text, "msg=serving") {
			serving = true
			stop()
		}
	}, "serve")
	if code != term.ExitOK || !serving {
		h.t.Errorf("the cause is gone, and trivet serve: exit %d\n%s", code, talk)
	}
}

var update = flag.Bool("update", false, "write the golden files")

// TestFailedStarts causes what keeps a peer from starting, one after the other in
// the same directory. Each is said in one sentence with a remedy, which are in a
// golden file, and the peer starts at once when its cause is gone.
func TestFailedStarts(t *testing.T) {
	h := newStartHost(t)
	h.serves() // once, so that there is a log with a snapshot
	var all strings.Builder
	var tried []string
	itself := regexp.MustCompile(`\S+ \(pid PID[^)]*\)`) // name and unit of this test are not always the same
	hide := strings.NewReplacer(h.dir, "DIR", h.api, "API", h.cluster, "CLUSTER", h.gossip, "GOSSIP", h.other, "OTHER",
		fmt.Sprint(os.Getpid()), "PID")
	for _, c := range failedStarts {
		tried = append(tried, c.part)
		heal := c.cause(h)
		code, talk := h.run(t.Context(), nil, "serve")
		heal()
		fmt.Fprintf(&all, "# %s: %s\n", strings.TrimPrefix(c.part, " "), c.name)
		for line := range strings.Lines(talk) {
			if strings.HasPrefix(line, "trivet: error: ") || strings.HasPrefix(line, "trivet: hint: ") {
				all.WriteString(itself.ReplaceAllString(hide.Replace(line), "TEST (pid PID)"))
			}
		}
		fmt.Fprintf(&all, "exit %d\n\n", code)
		if code != c.code {
			t.Errorf("%s: %s: exit %d, want %d\n%s", c.part, c.name, code, c.code, talk)
		}
		h.serves()
		if _, err := os.Lstat(h.path("s")); err == nil {
			t.Errorf("%s: %s: the socket is left", c.part, c.name)
		}
	}
	for _, part := range app.StartParts() {
		if _, never := impossible[part]; never == slices.Contains(tried, part) {
			t.Errorf("%s: write a row that makes it fail, or why none can; not both", part)
		}
	}
	golden := filepath.Join("testdata", "failed-starts.golden")
	if *update {
		h.check(os.WriteFile(golden, []byte(all.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	h.check(err)
	if got := all.String(); got != string(want) {
		t.Errorf("the messages are not those of %s (-update writes them):\n%s", golden, got)
	}
}
