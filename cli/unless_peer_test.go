package cli

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/term"
)

// TestJoinUnlessPeer: what a pod runs before every start is done where a member's data
// is, without a token and without the cluster; a host without data needs a token; and
// data of a former member, or that cannot be read, is no host without data.
func TestJoinUnlessPeer(t *testing.T) {
	root := t.TempDir()
	var talk bytes.Buffer
	p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &talk, Err: &talk, Wall: time.Now,
		Random: rand.Reader, Env: []string{
			"TRIVET_CONFIG=/dev/null", "TRIVET_DATA_DIR=" + root, "TRIVET_SOCKET=" + filepath.Join(root, "s")}}}
	expect := func(what string, want int, says string, words ...string) {
		t.Helper()
		talk.Reset()
		if code := p.run(t.Context(), words); code != want || !strings.Contains(talk.String(), says) {
			t.Errorf("%s: exit %d, want %d and %q:\n%s", what, code, want, says, &talk)
		}
	}
	join := []string{"join", "127.0.0.1:1", "--unless-peer", "--token-file", filepath.Join(root, "no-token")}
	expect("token-needed-on-an-empty-disk", term.ExitUsage, "no-token", join...)
	if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
		t.Errorf("an empty disk holds %v (%v)", left, err)
	}
	expect("init", 0, "", "init", "--name", "h1", "--cluster-listen", "127.0.0.1:7350",
		"--gossip-listen", "127.0.0.1:7351", "--api-listen", "127.0.0.1:5050")
	expect("no-token-where-a-peer-lives", 0, "nothing was changed", join...)
	identity := filepath.Join(root, "peer", "peer.json")
	text, err := os.ReadFile(identity)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(identity, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect("unreadable-data-is-a-peer", term.ExitFailed, "nothing was changed", join...)
	if err := os.WriteFile(identity, text, 0o600); err != nil {
		t.Fatal(err)
	}
	depart(t, root, datadir.DepartedRemoved)
	expect("former-member-is-refused", term.ExitConflict, "with --replace", join...)
}
