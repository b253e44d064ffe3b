//go:build e2e

package labtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/testenv"
)

// rotationLimit is longer than the steps take where everybody lives, and
// shorter than waiting for somebody who is down would be.
const rotationLimit = 30 * time.Second

// TestKeys rotates the gossip key while a peer is down, which joins the gossip
// again when it is back; looks at backups that peers took by themselves; refuses
// a snapshot of another cluster; and controls a peer with an operator's
// certificate until that is revoked.
func TestKeys(t *testing.T) {
	t.Parallel()
	l := New(t)
	backups := filepath.Join(l.dir, "backups")
	testenv.Must(t, os.Mkdir(backups, 0o700))
	l.furnish = func(p *Peer) { p.Env = append(p.Env, "TRIVET_BACKUP_DIRECTORY="+backups) }
	l.Trio("a", "b", "c")
	leader := l.WaitLeader()
	down := l.Followers()[0]
	old, err := os.ReadFile(gossipKey(down))
	testenv.Must(t, err)
	down.Kill9()
	leader.Must("gossip", "rotate-key", leader.On())
	l.Eventually(rotationLimit, "the key of those that live", func() error {
		for _, p := range l.Running() {
			if now, err := os.ReadFile(gossipKey(p)); err != nil || strings.Contains(string(now), string(old)) {
				return fmt.Errorf("%s: the old key still: %w", p.Name, err)
			}
		}
		return nil
	})
	down.Start()
	l.Eventually(rotationLimit, "the peer that was down gossips", func() error {
		var peers []api.Peer
		if err := leader.Call("GET", "/v1/peers", nil, &peers); err != nil {
			return err
		}
		for _, p := range peers {
			if p.Gossip != "alive" {
				return fmt.Errorf("rotated-key-is-taken-over: %s is %s", p.Name, p.Gossip)
			}
		}
		return nil
	})
	l.backedUp(backups)
	l.runningRefused()
	l.operated()
}

func gossipKey(p *Peer) string { return filepath.Join(p.Dir, "peer", "gossip.key") }

// backedUp waits for a good backup of every peer.
func (l *Lab) backedUp(dir string) {
	l.t.Helper()
	l.Eventually(rotationLimit, "backups of three peers", func() error {
		files, err := filepath.Glob(filepath.Join(dir, "trivet-*.snap"))
		if err != nil || len(files) < 3 {
			return errors.Join(err, fmt.Errorf("%d files", len(files)))
		}
		p := l.Running()[0]
		words := []any{"snapshot", "verify"}
		for _, f := range files {
			words = append(words, f)
		}
		p.Must(words...)
		return nil
	})
}

// runningRefused restores while the peers run: the command and the answer to
// scripts of earlier versions name what is to be done.
func (l *Lab) runningRefused() {
	l.t.Helper()
	leader := l.WaitLeader()
	file := filepath.Join(l.dir, "state.snap")
	leader.Must("snapshot", "save", file, leader.On())
	if r := leader.Trivet("snapshot", "restore", file, leader.Flags()); r.Code != 4 ||
		!strings.Contains(r.Err, "trivet join HOST --replace") {
		l.t.Errorf("running-is-refused: exit %d, want 4\n%s", r.Code, r.Err)
	}
	var gone *httpapi.Refusal
	if err := leader.Call("PUT", "/v1/snapshot", "a snapshot", nil); !errors.As(err, &gone) || gone.Status != 405 {
		l.t.Errorf("running-is-refused: %v, want 410", err)
	}
}

// operated controls a peer through its port.
func (l *Lab) operated() {
	l.t.Helper()
	leader := l.WaitLeader()
	file := filepath.Join(l.dir, "ann.pem")
	if err := os.WriteFile(file, []byte(leader.Must("cert", "issue-operator", "ann", leader.On())), 0o600); err != nil {
		l.t.Fatal(err)
	}
	far := []string{"--config", "/dev/null", "--peer", leader.Cluster, "--operator-cert", file}
	l.Eventually(rotationLimit, "members, asked from afar", func() error { // a busy machine may be electing
		if r := leader.Trivet("members", "-o", "name", far); r.Code != 0 || len(strings.Fields(r.Out)) != 3 {
			return fmt.Errorf("exit %d: %s%s", r.Code, r.Out, r.Err)
		}
		return nil
	})
	if out := leader.Must("cert", "status", far); strings.Count(out, "peer ") != 3 ||
		!strings.Contains(out, "operator ann") {
		l.t.Errorf("certificates:\n%s", out)
	}
	leader.Must("cert", "renew", far)
	leader.Must("token", "rotate", "-q", far)
	leader.Must("cert", "revoke-operator", "ann", leader.On())
	if r := leader.Trivet("members", far); r.Code != 7 {
		l.t.Errorf("revoked-operator-is-refused: exit %d, want 7\n%s%s", r.Code, r.Out, r.Err)
	}
}
