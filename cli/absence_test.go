package cli

import (
	"bytes"
	"crypto/rand"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/term"
)

// depart has h3 be gone from cluster c1.
func depart(t *testing.T, root, how string) {
	t.Helper()
	dir, err := datadir.Open(root)
	if err == nil {
		err = errors.Join(dir.Depart(datadir.Departure{How: how, Name: "h3", Cluster: "c1", At: time.Unix(1_700_000_000, 0)}), dir.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestHostsWithoutAPeer: what a host that left, or was removed, is told to do.
func TestHostsWithoutAPeer(t *testing.T) {
	root := t.TempDir()
	var talk bytes.Buffer
	p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &talk, Err: &talk, Wall: time.Now, Random: rand.Reader, Env: []string{
		"TRIVET_CONFIG=/dev/null", "TRIVET_DATA_DIR=" + root, "TRIVET_SOCKET=" + filepath.Join(root, "s")}}}
	run := func(words ...string) (int, string) {
		talk.Reset()
		code := p.run(t.Context(), words)
		return code, talk.String()
	}
	expect := func(code int, said string, wants ...string) {
		t.Helper()
		if code != term.ExitFailed {
			t.Errorf("exit %d: %s", code, said)
		}
		for _, want := range wants {
			if !strings.Contains(said, want) {
				t.Errorf("says %q, want %q", said, want)
			}
		}
		if strings.Contains(said, "systemctl start") {
			t.Errorf("there is nothing to start: %q", said)
		}
	}
	depart(t, root, datadir.DepartedLeft)
	code, said := run("status")
	expect(code, said, "h3 left cluster c1 at 2023-11-14T22:13:20Z", "trivet join HOST --token-file FILE")
	if code, said := run("init", "--name", "h3", "--cluster-listen", "127.0.0.1:7350", "--gossip-listen", "127.0.0.1:7351", "--api-listen", "127.0.0.1:5050"); code != 0 {
		t.Fatalf("init: exit %d: %s", code, said)
	}
	token := tokenIn(t, talk.String())
	depart(t, root, datadir.DepartedRemoved)
	code, said = run("status")
	expect(code, said, "h3 was removed from cluster c1", "'trivet leave' here clears what is left of it; then 'trivet token create' on a peer")
	if code, said := run("join", "127.0.0.1:1", "--token", token); code != term.ExitConflict || !strings.Contains(said, "which was removed from cluster") || !strings.Contains(said, "'trivet leave' here clears") {
		t.Errorf("join-after-removal: exit %d: %s", code, said)
	}
	if code, said := run("leave"); code != 0 || !strings.Contains(said, "what was left of it is wiped") {
		t.Errorf("leave-after-removal: exit %d: %s", code, said)
	}
	if _, _, err := datadir.Peek(root); !errors.Is(err, datadir.ErrNoPeer) {
		t.Errorf("leave-after-removal: %v", err)
	}
}

// tokenIn finds the token that init prints.
func tokenIn(t *testing.T, said string) string {
	t.Helper()
	_, rest, found := strings.Cut(said, "<<END\n")
	token, _, ended := strings.Cut(rest, "\nEND\n")
	if !found || !ended {
		t.Fatalf("no token in %q", said)
	}
	return token
}
