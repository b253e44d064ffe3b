//go:build e2e

package labtest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
)

// keptTTL is longer than a busy host delays a renewal, and much shorter than the upgrade lasts.
const keptTTL = 20 * time.Second

// heldLease is one that a program holds through the floating IP.
type heldLease struct {
	r    *rolling
	file string
	run  *program.Process
	said bytes.Buffer // what it wrote, to be read once it has ended
}

// holdLease has a program work under a lease until its verdict. It writes its token again
// and again, and ends if the lease is lost.
func (r *rolling) holdLease() *heldLease {
	r.t.Helper()
	h := &heldLease{r: r, file: filepath.Join(r.dir, "held")}
	script := `while :; do echo "$TRIVET_FENCING_TOKEN" >>"$0"; sleep 0.1; done`
	cmd := r.Peers[0].Host.Command(r.next, "lease", "run", "upgrade", "--holder", "h", "--ttl",
		keptTTL.String(), "--server", "http://"+r.floating+":5050", "--", "sh", "-c", script, h.file)
	cmd.Stderr = &h.said
	run, err := program.Start(cmd)
	testenv.Must(r.t, err)
	h.run = run
	r.t.Cleanup(func() {
		if err := run.End(syscall.SIGKILL, runLimit); err != nil {
			r.t.Log(err) // it was killed
		}
	})
	r.Eventually(electLimit, "the lease is held", func() error {
		_, err := os.Stat(h.file)
		return err
	})
	return h
}

// verdict says whether the lease was held all the time.
func (h *heldLease) verdict() {
	h.r.t.Helper()
	if !h.run.Running() {
		h.r.t.Errorf("lease-kept: it ended with %d: %s", h.run.Code, h.said.String())
	}
	text, err := os.ReadFile(h.file)
	testenv.Must(h.r.t, err)
	lines := strings.Fields(string(text))
	for _, token := range lines {
		if token != lines[0] {
			h.r.t.Errorf("lease-kept: held under token %s, then under %s", lines[0], token)
			return
		}
	}
	h.r.t.Logf("the lease was held under token %s, %d lines", lines[0], len(lines))
}
