//go:build e2e

package labtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
)

// ironicSecret is a password that no line of a log may show.
const ironicSecret = "of-ironic-51f0"

// TestBalancer puts Debian's HAProxy in front of three peers, with the file that
// the packages ship: while one peer is stopped in order, and then the leader is
// killed, every request that reads is answered. The peers log JSON meanwhile.
func TestBalancer(t *testing.T) {
	t.Parallel()
	l := New(t)
	l.furnish = func(p *Peer) {
		p.Env = append(p.Env, "TRIVET_LOG_FORMAT=json", "TRIVET_IRONIC_AUTH_TYPE=http_basic", "TRIVET_IRONIC_USERNAME=ironic",
			"TRIVET_IRONIC_PASSWORD="+ironicSecret)
	}
	l.Trio("a", "b", "c")
	front := balance(t, l)
	l.Eventually(electLimit, "the balancer answers", func() error { _, err := askThrough(front); return err })

	load, ends := new(reading), []func(){}
	for range 4 {
		ends = append(ends, repeated(t, 10*time.Millisecond, func() { load.ask(front) }))
	}
	stopped := l.Followers()[0]
	stopped.Stop()
	load.pass(t, 200)
	stopped.Start()
	l.WaitVoters(3)
	l.WaitLeader().Kill9()
	l.WaitLeader()
	load.pass(t, 200)
	for _, end := range ends {
		end()
	}
	for _, err := range load.failed {
		t.Errorf("through the balancer: %v", err)
	}
	t.Logf("%d requests", load.count)
	testenv.Took(t, "labtest.balancer_request", load.longest, 3*time.Second)
	for _, p := range l.Peers {
		wantJSON(t, p)
	}
}

// balance runs HAProxy and returns where it listens.
func balance(t *testing.T, l *Lab) string {
	t.Helper()
	text, err := os.ReadFile("../../packaging/monitoring/haproxy.cfg")
	testenv.Must(t, err)
	front := testenv.FreePort(t)
	change := []string{"bind :5050", "bind " + front}
	for i, p := range l.Peers {
		change = append(change, fmt.Sprintf("192.0.2.%d:5050", i+1), p.API)
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	testenv.Must(t, os.WriteFile(file, []byte(strings.NewReplacer(change...).Replace(string(text))), 0o600))
	cmd := exec.Command("haproxy", "-db", "-f", file)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin"}
	program.Run(t, cmd, syscall.SIGKILL) // it is Debian's
	return front
}

// askThrough lists introspections on a connection of its own or an old one.
func askThrough(front string) (took time.Duration, err error) {
	began := time.Now()
	err = httpapi.OK(httpapi.Ask(http.DefaultClient, front, "GET", "/v1/introspection", nil, nil))
	return time.Since(began), err
}

// reading is what clients have met that ask again and again.
type reading struct {
	mu      sync.Mutex
	count   int
	longest time.Duration
	failed  []error
}

// ask asks once more.
func (r *reading) ask(front string) {
	took, err := askThrough(front)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	r.longest = max(r.longest, took)
	if err != nil && len(r.failed) < 10 {
		r.failed = append(r.failed, err)
	}
}

// pass waits until so many more requests were made.
func (r *reading) pass(t *testing.T, more int) {
	t.Helper()
	made := func() int64 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return int64(r.count)
	}
	until := made() + int64(more)
	eventually(t, electLimit, "requests go on", func() error { return atLeast(made(), until) })
}

// wantJSON wants each line that a peer logged to be an object with a time, a level
// and a message, and none to hold a password or a key.
func wantJSON(t *testing.T, p *Peer) {
	t.Helper()
	levels := []string{"DEBUG", "INFO", "WARN", "ERROR"}
	lines := strings.Split(strings.TrimSpace(p.Log()), "\n")
	for _, line := range lines {
		if strings.HasPrefix(line, "trivet: warning: ") { // before it knows how to log
			continue
		}
		var entry struct {
			Time  time.Time `json:"time"`
			Level string    `json:"level"`
			Msg   string    `json:"msg"`
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Time.IsZero() || entry.Msg == "" ||
			!slices.Contains(levels, entry.Level) {
			t.Errorf("%s logged what is no entry (%v): %s", p.Name, err, line)
		}
		if strings.Contains(line, ironicSecret) || strings.Contains(line, "PRIVATE KEY") {
			t.Errorf("%s logged a secret: %s", p.Name, line)
		}
	}
	if len(lines) < 4 {
		t.Errorf("%s logged only %d lines", p.Name, len(lines))
	}
}
