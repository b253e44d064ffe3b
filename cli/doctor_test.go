//go:build e2e

package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/term"
)

// TestDoctorOnAHostThatLeft says why no peer runs there. It lists the rules of the
// tester's own host.
func TestDoctorOnAHostThatLeft(t *testing.T) {
	root := t.TempDir()
	depart(t, root, datadir.DepartedLeft)
	var talk bytes.Buffer
	p := &program{Terminal: &term.Terminal{Out: &talk, Err: &talk, Wall: time.Now, Env: []string{
		"TRIVET_CONFIG=/dev/null", "TRIVET_DATA_DIR=" + root, "TRIVET_SOCKET=" + filepath.Join(root, "s")}}}
	code, said := p.run(t.Context(), []string{"doctor", "--check", "peers"}), talk.String()
	if code != term.ExitFailed || !strings.Contains(said, "no peer runs on this host: h3 left cluster c1") ||
		!strings.Contains(said, "trivet join HOST --token-file FILE") || strings.Contains(said, "systemctl start") {
		t.Errorf("exit %d: %s", code, said)
	}
}
