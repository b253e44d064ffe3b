package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/term"
)

// TestKilledJoinIsFinished: a join that was killed when this host was a peer, and had no configuration, is
// finished by the same command, without the cluster; then nothing is left to do.
func TestKilledJoinIsFinished(t *testing.T) {
	for name, unlessPeer := range map[string]bool{"join": false, "join --unless-peer": true} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			var out, talk bytes.Buffer
			file := filepath.Join(root, "trivet.yaml")
			p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &out, Err: &talk, Wall: time.Now,
				Random: rand.Reader, Env: []string{"TRIVET_CONFIG=" + file, "TRIVET_DATA_DIR=" + root,
					"TRIVET_SOCKET=" + filepath.Join(root, "s")}}}
			run := func(words ...string) string {
				t.Helper()
				talk.Reset()
				if code := p.run(t.Context(), words); code != 0 {
					t.Fatalf("%v: exit %d:\n%s", words, code, &talk)
				}
				return talk.String()
			}
			run("init", "-o", "json", "--name", "h1", "--cluster-listen", "127.0.0.1:7350",
				"--gossip-listen", "127.0.0.1:7351", "--api-listen", "127.0.0.1:5050")
			var made struct{ Token string }
			if err := json.Unmarshal(out.Bytes(), &made); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			told := `{"settings": {"ironic.url": "http://127.0.0.1:6385"}, "users": "` + "YTpiCg==" + `"}`
			if err := os.WriteFile(filepath.Join(root, "peer", "joined.json"), []byte(told), 0o600); err != nil {
				t.Fatal(err)
			}
			words := []string{"join", "127.0.0.1:1", "--token", made.Token, "--name", "h1",
				"--cluster-listen", "127.0.0.1:7350"}
			if unlessPeer {
				words = append(words, "--unless-peer")
			}
			out.Reset()
			run(append(words, "--dry-run")...)
			if _, err := os.Stat(file); !os.IsNotExist(err) || !strings.Contains(out.String(), "+++ "+file) {
				t.Errorf("join-finished: a dry run shows (%v)\n%s", err, &out)
			}
			if says := run(words...); !strings.Contains(says, "is finished") {
				t.Errorf("join-finished: it says:\n%s", says)
			}
			text, err := os.ReadFile(file)
			if err != nil || !strings.Contains(string(text), "http://127.0.0.1:6385") ||
				!strings.Contains(string(text), "127.0.0.1:7350") {
				t.Errorf("join-finished: the configuration is (%v)\n%s", err, text)
			}
			if says := run(words...); !strings.Contains(says, "nothing was changed") {
				t.Errorf("join-finished: repeated, it says:\n%s", says)
			}
		})
	}
}

// TestUnfinishedJoinDoesNotServe: a peer whose configuration has not what the cluster told does not run by defaults,
// and each command says how its join is finished. Finished, it may run.
func TestUnfinishedJoinDoesNotServe(t *testing.T) {
	h := newStartHost(t)
	h.replace("d/peer/joined.json", `{"settings": {"ironic.url": "http://127.0.0.1:6385"}}`)
	expect := func(what string, want int, says string, words ...string) {
		t.Helper()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		served := func(text string) {
			if strings.Contains(text, "msg=serving") {
				stop()
			}
		}
		if code, talk := h.run(ctx, served, words...); code != want || !strings.Contains(talk, says) {
			t.Errorf("unfinished-join: %s: exit %d, want %d and %q:\n%s", what, code, want, says, talk)
		}
	}
	const hint = "'trivet join HOST --unless-peer'"
	again := []string{"join", "127.0.0.1:1", "--unless-peer"}
	expect("serve", term.ExitUsage, hint, "serve")
	expect("config check", term.ExitUsage, hint, "config", "check")
	expect("status", term.ExitFailed, hint, "status")
	expect("recover", term.ExitUsage, hint, "recover")
	dir, err := datadir.Open(h.path("d"))
	h.check(err)
	expect("a join while the peer runs", term.ExitConflict, "stop the peer", again...)
	h.check(dir.Close())
	expect("a join", term.ExitOK, "is finished", again...)
	expect("config check, finished", term.ExitOK, "will do", "config", "check")
	dir, err = datadir.Open(h.path("d"))
	h.check(err)
	expect("a join while the finished peer runs", term.ExitOK, "nothing was changed", again...)
	h.check(dir.Close())
}
