package cli

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cli/term"
)

// TestInitDryRun: a dry run of init makes nothing, and tells each file that init makes then,
// with its text but for secrets and IDs.
func TestInitDryRun(t *testing.T) {
	root := t.TempDir()
	file, dir := filepath.Join(root, "trivet.yaml"), filepath.Join(root, "d")
	if err := os.WriteFile(file, []byte("# mine\nraft:\n  timing: fast\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	was := treeOf(t, os.DirFS(root))
	run := func(words ...string) string {
		var out, said bytes.Buffer
		p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &out, Err: &said, Wall: time.Now,
			Random: rand.Reader}}
		args := append([]string{"init", "-o", "json", "--config", file, "--data-dir", dir, "--name", "h1", "--cluster-listen",
			"127.0.0.1:7350", "--gossip-listen", "127.0.0.1:7450", "--api-listen", "127.0.0.1:5050", "--firewall-driver", "noop",
			"--api-auth-strategy", "http_basic"}, words...)
		if code := p.run(t.Context(), args); code != 0 {
			t.Fatalf("init %v: exit %d: %s", words, code, &said)
		}
		return out.String()
	}
	var told []term.Edit
	if err := json.Unmarshal([]byte(run("--dry-run")), &told); err != nil {
		t.Fatal(err)
	}
	if now := treeOf(t, os.DirFS(root)); now != was {
		t.Fatalf("dry-run-changes-nothing: the tree was\n%s\nand is\n%s", was, now)
	}
	run()
	text := make(map[string]string)
	for _, e := range told {
		text[e.Path] = e.After
		made, err := os.ReadFile(e.Path)
		switch info, gone := os.Stat(e.Path); {
		case gone != nil:
			t.Errorf("dry-run-is-what-is-done: %s is told and not made", e.Path)
		case info.IsDir() || strings.Contains(e.After, "(secret)"):
		case err != nil || withoutIDs(e.After) != withoutIDs(string(made)):
			t.Errorf("dry-run-is-what-is-done: %s (%v) is told as\n%s\nand is\n%s", e.Path, err, e.After, made)
		}
	}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if path == filepath.Join(dir, "peer", "raft") {
			return filepath.SkipDir
		}
		if _, known := text[path]; !known && !d.IsDir() && path != filepath.Join(dir, "lock") {
			t.Errorf("dry-run-is-what-is-done: %s is made and not told", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// withoutIDs is a text without the IDs that are drawn.
func withoutIDs(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if name, _, id := strings.Cut(line, `id": "`); id {
			line = name + "\n"
		}
		out.WriteString(line)
	}
	return out.String()
}
