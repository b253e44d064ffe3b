//go:build e2e

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// A processPeer is a peer in a process of its own, on loopback.
type processPeer struct {
	t    *testing.T
	name string
	dir  string
	env  []string

	serving *exec.Cmd
	log     bytes.Buffer // of the newest process; read after its end
}

func newProcessPeer(t *testing.T, name string) *processPeer {
	t.Helper()
	p := &processPeer{t: t, name: name, dir: t.TempDir()}
	p.env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "TRIVET_CONFIG=/dev/null", "TRIVET_FIREWALL_DRIVER=noop",
		"TRIVET_NAME="+name,
		"TRIVET_DATA_DIR="+filepath.Join(p.dir, "d"), "TRIVET_SOCKET="+filepath.Join(p.dir, "s"))
	for _, name := range []string{"API", "CLUSTER", "GOSSIP"} {
		p.env = append(p.env, "TRIVET_"+name+"_LISTEN="+testenv.FreePort(t))
	}
	t.Cleanup(func() {
		if p.serving != nil {
			_ = p.serving.Process.Kill() // it may have ended
			_ = p.serving.Wait()
		}
	})
	return p
}

// run runs a command as on the host of the peer.
func (p *processPeer) run(args ...string) (code int, out, talk string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "trivet", args...) // TestMain put it on the path
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = p.env, p.dir, &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		p.t.Fatalf("%s: trivet %v: %v", p.name, args, err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// must runs a command that ends with exit code 0.
func (p *processPeer) must(args ...string) string {
	p.t.Helper()
	code, out, talk := p.run(args...)
	if code != term.ExitOK {
		p.t.Fatalf("%s: trivet %v: exit %d\n%s", p.name, args, code, talk)
	}
	return out
}

func (p *processPeer) start() {
	p.t.Helper()
	p.log.Reset()
	p.startLogging(&p.log)
}

// startLogging is start with another place for the log.
func (p *processPeer) startLogging(to io.Writer) {
	p.t.Helper()
	p.serving = exec.Command("trivet", "serve")
	p.serving.Env, p.serving.Dir, p.serving.Stderr = p.env, p.dir, to
	if err := p.serving.Start(); err != nil {
		p.t.Fatal(err)
	}
}

// wait returns the exit code of trivet serve, which was told to end or has a
// reason of its own.
func (p *processPeer) wait() int {
	p.t.Helper()
	ended := make(chan error, 1)
	serving := p.serving
	go func() { ended <- serving.Wait() }()
	testwait.ReceiveWithin(p.t, time.Minute, ended, p.name+": the end of trivet serve") // its exit code is looked at
	p.serving = nil
	return serving.ProcessState.ExitCode()
}

// status is what trivet status says, zero where it does not answer.
func (p *processPeer) status() (s api.Status) {
	p.t.Helper()
	if code, out, _ := p.run("status", "-o", "json"); code == term.ExitOK || out != "" {
		_ = json.Unmarshal([]byte(out), &s) // what cannot be read is not ready
	}
	return s
}

// awaitVoters waits until a peer follows a leader of so many voters.
func (p *processPeer) awaitVoters(n int) {
	p.t.Helper()
	testwait.Within(p.t, time.Minute, fmt.Sprintf("%s: a leader and %d voters, all live", p.name, n), func() error {
		if s := p.status(); !s.Ready || s.Quorum.Voters != n || s.Quorum.Live != n {
			return fmt.Errorf("status is %+v", s)
		}
		return nil
	})
}

// threeProcesses is a cluster of three.
func threeProcesses(t *testing.T) []*processPeer {
	t.Helper()
	var all []*processPeer
	for _, name := range []string{"h1", "h2", "h3"} {
		all = append(all, newProcessPeer(t, name))
	}
	first := all[0]
	first.must("init", "-q")
	first.start()
	first.awaitVoters(1)
	for n, p := range all[1:] {
		first.invite(p)
		p.start()
		p.awaitVoters(n + 2)
	}
	first.awaitVoters(3)
	return all
}

// invite makes p a member of the cluster.
func (first *processPeer) invite(p *processPeer) {
	p.t.Helper()
	out := first.must("token", "create", "--ttl", "30m")
	words := strings.Fields(out) // trivet join HOST:PORT --token-file - <<END TOKEN END
	p.must("join", words[2], "--token", tokenIn(p.t, out))
}

// TestThreeProcessesStopAtOnce stops a whole cluster, as an operator does who
// shuts a rack down: each exit code is 0, whether or not a peer is left to hear.
func TestThreeProcessesStopAtOnce(t *testing.T) {
	all := threeProcesses(t)
	const trials = 3 // of three processes each; package cluster repeats the stop itself more often
	for n := range trials {
		for _, p := range all {
			if err := p.serving.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range all {
			if code := p.wait(); code != term.ExitOK || !strings.Contains(p.log.String(), "msg=stopped") {
				t.Errorf("trial %d: %s ended with exit code %d:\n%s", n, p.name, code, p.log.String())
			}
		}
		if t.Failed() || n == trials-1 {
			return
		}
		for _, p := range all {
			p.start()
		}
		for _, p := range all {
			p.awaitVoters(3)
		}
	}
}

// TestLeaveOfARemovedPeer removes a peer that is stopped, starts it and has it
// leave at once. Its removal and the question meet at any point of the answer.
func TestLeaveOfARemovedPeer(t *testing.T) {
	all := threeProcesses(t)
	first, third := all[0], all[2]
	const trials = 2
	left := 0
	for n := range trials {
		if err := third.serving.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := third.wait(); code != term.ExitOK {
			t.Fatalf("h3 ended with exit code %d:\n%s", code, third.log.String())
		}
		first.must("remove", "h3", "--force")
		third.start()
		third.awaitSocket()
		code, _, talk := third.run("leave")
		ended := third.wait()
		_, err := os.Stat(filepath.Join(third.dir, "d", "peer"))
		wiped := errors.Is(err, os.ErrNotExist)
		said := fmt.Sprintf("trial %d: trivet leave: exit %d, trivet serve: exit %d, wiped %v\n%s%s", n, code, ended, wiped,
			talk, third.log.String())
		switch {
		case strings.Contains(talk, "EOF"):
			t.Errorf("a raw error: %s", said)
		case code == term.ExitOK && ended == term.ExitOK && wiped:
			left++
		case code != term.ExitOK && ended == term.ExitConflict && !wiped &&
			strings.Contains(talk, term.ErrNoPeerHere.Error()):
			// It knew of its removal and had stopped before it was asked.
		default:
			t.Errorf("leave and log disagree: %s", said)
		}
		if t.Failed() || n == trials-1 {
			break
		}
		if !wiped {
			if err := os.RemoveAll(filepath.Join(third.dir, "d", "peer")); err != nil {
				t.Fatal(err)
			}
		}
		first.invite(third)
		third.start()
		third.awaitVoters(3)
	}
	t.Logf("it left in %d of %d trials", left, trials)
}

func (p *processPeer) awaitSocket() {
	p.t.Helper()
	testwait.UntilWithin(p.t, time.Minute, p.name+": its socket", func() bool {
		_, err := os.Stat(filepath.Join(p.dir, "s"))
		return err == nil
	})
}
