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
		err = errors.Join(dir.Depart(datadir.Departure{How: how, Name: "h3", Cluster: "c1", At: time.Unix(1_700_000_000, 0)}),
			dir.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestHostsWithoutAPeer: what a host that left, or was removed, is told to do.
func TestHostsWithoutAPeer(t *testing.T) {
	root := t.TempDir()
	var talk bytes.Buffer
	p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &talk, Err: &talk, Wall: time.Now,
		Random: rand.Reader, Env: []string{
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
	if code, said := run("init", "--name", "h3", "--cluster-listen", "127.0.0.1:7350", "--gossip-listen", "127.0.0.1:7351",
		"--api-listen", "127.0.0.1:5050"); code != 0 {
		t.Fatalf("init: exit %d: %s", code, said)
	}
	token := tokenIn(t, talk.String())
	depart(t, root, datadir.DepartedRemoved)
	code, said = run("status")
	anew := "'trivet token create' on a peer, then here 'trivet join HOST --replace --token-file FILE'"
	expect(code, said, "h3 was removed from cluster c1", anew)
	code, said = run("leave")
	expect(code, said, "h3 was removed from cluster c1", anew)
	if code, said := run("join", "127.0.0.1:1", "--token", token); code != term.ExitConflict ||
		!strings.Contains(said, "no member of cluster") || !strings.Contains(said, "with --replace") {
		t.Errorf("join-after-removal: exit %d: %s", code, said)
	}
	depart(t, root, datadir.DepartedSuperseded)
	code, said = run("status")
	expect(code, said, "was founded again without h3", anew)
	// Nothing is set aside before the cluster has answered.
	code, said = run("join", "127.0.0.1:1", "--token", token, "--replace", "--cluster-listen", "127.0.0.1:7350",
		"--gossip-listen", "127.0.0.1:7351")
	expect(code, said, "join 127.0.0.1:1")
	if _, _, err := datadir.Peek(root); err != nil {
		t.Errorf("set-aside-after-an-answer: %v", err)
	}
	for _, gone := range [][]string{{"rejoin", "192.0.2.1", "--data-dir", "d"}, {"remove", "h3", "--replace"},
		{"recover", "--yes-i-lost-the-majority", "--confirm", "h1"}} {
		if code, said := run(gone...); code != term.ExitUsage || !strings.Contains(said, "any more") {
			t.Errorf("gone-commands-say-what-to-do: %v: exit %d: %s", gone, code, said)
		}
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
