package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/test/testenv"
)

// host is this process in the part of one host, with a wall clock of its own.
type host struct {
	t     *testing.T
	dir   string
	flags []string
	off   time.Duration // of its clock
}

func newHost(t *testing.T, name string, off time.Duration) *host {
	dir, err := os.MkdirTemp("", "trivet-cli-") // short: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &host{t: t, dir: dir, off: off, flags: []string{
		"--config", "/dev/null", "--name", name, "--data-dir", filepath.Join(dir, "d"), "--socket", filepath.Join(dir, "s"),
		"--api-listen", testenv.FreePort(t), "--cluster-listen", testenv.FreePort(t), "--gossip-listen", testenv.FreePort(t),
	}}
}

func (h *host) address() string { return h.flags[len(h.flags)-3] }

// run runs one command with this host's clock.
func (h *host) run(ctx context.Context, words ...string) (out, talk string, code int) {
	var o, e bytes.Buffer
	p := &program{
		Terminal: &term.Terminal{
			In: strings.NewReader(""), Out: &o, Err: &e, Random: rand.Reader,
			Env:  []string{"TRIVET_FIREWALL_DRIVER=noop"}, // the filter of the tester's own host stays as it is
			Wall: func() time.Time { return time.Now().Add(h.off) },
		},
		exit: func(code int) { h.t.Errorf("the process would have ended with %d", code) },
	}
	flags := h.flags
	if words[0] == "members" { // it lives by the socket alone
		flags = h.flags[4:8]
	}
	code = p.run(ctx, append(words, flags...))
	return o.String(), e.String(), code
}

// TestJoinWithWrongClock: whichever way and however far a joiner's clock is
// off, it is told so, and nothing is left behind on either side.
func TestJoinWithWrongClock(t *testing.T) {
	a := newHost(t, "a", 0)
	token, talk, code := a.run(t.Context(), "init", "-q")
	if code != 0 {
		t.Fatalf("init: exit %d\n%s", code, talk)
	}
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		if _, talk, code := a.run(ctx, "serve", "--log-level", "warn"); code != 0 {
			t.Errorf("serve: exit %d\n%s", code, talk)
		}
	})
	defer serving.Wait()
	defer stop()

	for name, off := range map[string]time.Duration{"b": 2 * time.Hour, "c": -5 * time.Hour, "d": 10 * time.Second,
		"e": 400 * 24 * time.Hour} {
		h := newHost(t, name, off)
		_, talk, code := h.run(t.Context(), "join", a.address(), "--token", strings.TrimSpace(token), "--wait", "20s")
		if code == 0 || !strings.Contains(talk, "clock") || !strings.Contains(talk, "trivet: hint: ") {
			t.Errorf("clock %v off: exit %d\n%s", off, code, talk)
		}
		if _, err := os.Stat(filepath.Join(h.dir, "d", "peer")); err == nil {
			t.Errorf("clock %v off: a peer was left behind", off)
		}
	}
	members, talk, code := a.run(t.Context(), "members", "-o", "name", "--stale")
	if code != 0 || members != "a\n" {
		t.Errorf("members: exit %d, %q\n%s", code, members, talk)
	}
	good := newHost(t, "f", -2*time.Second)
	if _, talk, code := good.run(t.Context(), "join", a.address(), "--token", strings.TrimSpace(token), "--wait",
		"20s"); code != 0 {
		t.Errorf("a clock 2 s off: exit %d\n%s", code, talk)
	}
}
