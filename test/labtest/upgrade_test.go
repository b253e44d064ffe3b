//go:build e2e

package labtest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
)

// TestUpgrade upgrades three hosts one after the other, as docs/upgrade.md says, from the
// last release to the binary under test, takes them all back, upgrades them again and
// finalizes that, with machines in every state at each stop, callers at the floating IP
// and a lease that is held throughout. On the way it tries the two versions together, and
// at the end that there is no way back any more.
func TestUpgrade(t *testing.T) {
	burst := 2
	if os.Getenv("TRIVET_E2E_UPGRADE") != "" {
		burst = 14 // 555 machines
	}
	r := newRolling(t, burst)
	_, r.before = r.versions()
	t.Logf("%d machines, from %s, log version %d", len(r.machines), r.tag, r.before)
	r.populate()
	held := r.holdLease()
	r.installAll(r.next, r.mixed)
	r.heldBack()
	r.installAll(r.old, func() {})
	r.installAll(r.next, func() {})
	r.heldBack()
	for _, dry := range []bool{true, false} {
		if err := r.WaitLeader().finalize(dry); err != nil {
			t.Fatalf("finalize, dry run %v: %v", dry, err)
		}
		if text, least := r.versions(); (least == fsm.Version) == dry && r.before < fsm.Version {
			t.Errorf("finalized-by-order: with dry run %v: %s", dry, text)
		}
	}
	held.verdict()
	r.verdict()
	r.back()
}

// heldBack tries an entry of the new version on hosts that all know it.
func (r *rolling) heldBack() {
	r.t.Helper()
	err := r.Peers[0].confirmSync()
	if r.before < fsm.Version && (err == nil || !strings.Contains(err.Error(), "trivet upgrade finalize")) {
		r.t.Errorf("held-back: an entry that the last release does not know was proposed before the end: %v", err)
	}
}

// mixed lets each peer lead while versions differ: introspections finish, states
// stay equal, and what only the newer one knows is refused with the reason.
func (r *rolling) mixed() {
	r.t.Helper()
	for _, p := range r.Peers {
		r.pardoned(func() { r.lead(p) })
		more := r.take(1)
		r.fleet.Add(more[0].Hardware())
		r.Introspect(more)
		r.MustFinish(endLimit, more)
		r.reapply(r.ended[:1])
		for _, q := range r.Peers {
			if q.Binary != r.next || r.before == fsm.Version {
				continue
			}
			if err := q.confirmSync(); err == nil || !strings.Contains(err.Error(), "upgrade trivet") {
				r.t.Errorf("older-peers-are-asked: with %s leading, %s proposed an entry that an older peer does not know: %v",
					p.Name, q.Name, err)
			}
			if err := q.finalize(false); err == nil || !strings.Contains(err.Error(), "upgrade and start trivet there") {
				r.t.Errorf("finalize-refused: with %s leading, %s finalized with a peer of the last release: %v", p.Name,
					q.Name, err)
			}
		}
	}
	r.settled()
}

// back starts the old binary on a host of the upgraded cluster. Where the log holds what
// it does not know it says so and stays down, else it serves.
func (r *rolling) back() {
	r.t.Helper()
	if err := r.Peers[0].confirmSync(); err == nil || strings.Contains(err.Error(), "upgrade trivet") {
		r.t.Fatalf("with all peers upgraded an entry of this version is not proposed: %v", err)
	}
	p := r.Followers()[0]
	p.Stop()
	p.Binary = r.old
	if r.before == fsm.Version {
		p.Start()
		r.WaitVoters(3)
		r.WaitSame()
		return
	}
	p.Spawn()
	if code := p.WaitExit(electLimit); code != 8 || !strings.Contains(program.Tail(p.Log(), 20), "upgrade trivet") {
		r.t.Errorf("unknown-entry: the old binary on the new log exited with %d:\n%s", code, program.Tail(p.Log(), 20))
	}
	p.Binary = r.next
	p.Start()
	r.WaitVoters(3)
	r.WaitSame()
}

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
