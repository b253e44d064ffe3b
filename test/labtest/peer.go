//go:build e2e

package labtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/raftstore/leader"
	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
)

// callLimit bounds one call of the control interface; a peer waits up to 7 s
// for a leader.
const callLimit = 10 * time.Second

// Peer is one data directory and, while it runs, its process.
type Peer struct {
	lab   *Lab
	t     testing.TB
	http  *http.Client // of its socket
	wire  *http.Client // of its public API
	proc  *program.Process
	aside bool // Running leaves it out

	Name   string
	Dir    string
	Socket string
	// Addresses of its listeners.
	API, Cluster, Gossip string
	// Listen is where the API listens, unless that is API alone.
	Listen string
	// Host is where it runs; nil is the tester's own.
	Host *Host
	// Binary is what it runs.
	Binary string
	// Env are more variables for serve.
	Env []string
	// Config is the configuration file of serve.
	Config string
}

// Result is one finished command.
type Result struct {
	Out, Err string
	Code     int
	command  string
}

// ended wants the command to have ended with a code, and its errors to have all of some words.
func (r Result) ended(t testing.TB, code int, says ...string) {
	t.Helper()
	for _, want := range append(says, "") {
		if r.Code != code || !strings.Contains(r.Err, want) {
			t.Fatalf("%s: exit %d, want %d and %q\n%s%s", r.command, r.Code, code, want, r.Out, r.Err)
		}
	}
}

// Flags are the words that tell every command where this peer lives.
func (p *Peer) Flags() []string {
	return []string{
		"--config", p.Config, "--data-dir", p.Dir, "--socket", p.Socket, "--name", p.Name,
		"--api-listen", cmp.Or(p.Listen, p.API), "--cluster-listen", p.Cluster, "--gossip-listen", p.Gossip,
	}
}

// command prepares a run of trivet on the peer's host, with nothing of the
// tester's environment. The host's own rules stay as they are unless the peer's
// Env says otherwise.
func (p *Peer) command(args ...string) *exec.Cmd {
	cmd := p.Host.Command(p.Binary, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "TRIVET_FIREWALL_DRIVER=noop"}
	return cmd
}

// importer is a command of trivet-import, which stands next to trivet.
func (p *Peer) importer(args ...string) *exec.Cmd {
	cmd := p.Host.Command(filepath.Join(filepath.Dir(os.Getenv(BinaryEnv)), "trivet-import"), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "TRIVET_SOCKET=" + p.Socket}
	return cmd
}

// Trivet runs a command to its end. A word list stands for its words.
func (p *Peer) Trivet(words ...any) Result { return p.ran(p.command(flat(words)...)) }

// Import runs a command of trivet-import, as Trivet does.
func (p *Peer) Import(words ...any) Result { return p.ran(p.importer(flat(words)...)) }

func flat(words []any) (args []string) {
	for _, w := range words {
		switch w := w.(type) {
		case string:
			args = append(args, w)
		case []string:
			args = append(args, w...)
		}
	}
	return args
}

func (p *Peer) ran(cmd *exec.Cmd) Result {
	p.t.Helper()
	var out, errw bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errw
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatalf("run trivet: %v", err)
	}
	return Result{out.String(), errw.String(), cmd.ProcessState.ExitCode(), strings.Join(cmd.Args, " ")}
}

// Must runs a command that has to succeed and returns its output.
func (p *Peer) Must(words ...any) string {
	p.t.Helper()
	r := p.Trivet(words...)
	if r.Code != 0 {
		p.t.Fatalf("trivet %v on %s: exit %d\n%s%s", words[0], p.Name, r.Code, r.Out, r.Err)
	}
	return r.Out
}

// configure writes the peer's configuration file.
func (p *Peer) configure(text string) {
	p.t.Helper()
	p.Config = filepath.Join(p.lab.dir, p.Name+".yaml")
	testenv.PutFile(p.t, p.lab.dir, p.Name+".yaml", text)
}

// On are the words that address the running peer.
func (p *Peer) On() []string {
	return []string{"--config", "/dev/null", "--data-dir", p.Dir, "--socket", p.Socket}
}

// Token makes a join token on this peer.
func (p *Peer) Token() string {
	p.t.Helper()
	return strings.TrimSpace(p.Must("token", "create", "-q", p.On()))
}

// Join makes p a peer of the cluster of through.
func (p *Peer) Join(through *Peer) {
	p.t.Helper()
	p.Must("join", through.Cluster, "--token", through.Token(), "--wait", "10s", p.Flags())
}

// joinAnew makes p, which has the data of a peer that is no member any more, a peer of
// the cluster of through, and starts it.
func (p *Peer) joinAnew(through *Peer) {
	p.t.Helper()
	p.Must("join", through.Cluster, "--replace", "--token", through.Token(), "--wait", "10s", p.Flags())
	p.Start()
}

func (p *Peer) logPath() string { return filepath.Join(p.lab.dir, p.Name+".log") }

// Log returns all that the processes of this peer wrote.
func (p *Peer) Log() string {
	text, err := os.ReadFile(p.logPath())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Start runs trivet serve and waits until it answers on its socket.
func (p *Peer) Start() {
	p.t.Helper()
	p.Spawn()
	p.lab.Eventually(electLimit, p.Name+" answers", func() error {
		if !p.running() {
			p.t.Fatalf("%s exited with %d instead of serving", p.Name, p.proc.Code)
		}
		_, err := p.Status()
		return err
	})
}

// Spawn runs trivet serve and waits for nothing.
func (p *Peer) Spawn() {
	p.t.Helper()
	cmd := p.command(append([]string{"serve"}, p.Flags()...)...)
	cmd.Env = append(cmd.Env, p.Env...)
	p.proc = program.StartLogged(p.t, cmd, p.logPath())
	p.aside = false
}

func (p *Peer) running() bool { return p.proc.Running() }

// startAgain is the service manager: it starts a peer again that ended by itself because it had
// led and could not let go in time, after a disk or a host that stood still. It waits for
// nothing, and reports whether that is how the peer ended.
func (p *Peer) startAgain() bool {
	p.t.Helper()
	if p.proc == nil || p.running() || p.proc.Code != leader.ExitLostLeadership {
		return false
	}
	p.t.Logf("peer %s is started again", p.Name)
	p.Spawn()
	return true
}

// PID returns the process ID.
func (p *Peer) PID() int { return p.proc.PID() }

// wentOn reports whether the peer, which stood still, is the process that it was, or was started
// again because a duty needed too long to stop: on a busy host it may.
func (p *Peer) wentOn(pid int) bool {
	return p.running() && (p.PID() == pid || strings.Contains(p.Log(), "did not stop within"))
}

// signal sends s to the process, by its ID alone.
func (p *Peer) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.proc.Signal(s); err != nil {
		p.t.Fatalf("signal %s: %v", p.Name, err)
	}
}

// Kill9 kills the process and waits for its end.
func (p *Peer) Kill9() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	<-p.proc.Done
}

// Pause stops the process at whatever instruction it is, and waits until it has.
func (p *Peer) Pause() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	eventually(p.t, electLimit, p.Name+" has stopped", p.proc.Stopped)
	p.aside = true
}

// Cont lets a paused process go on.
func (p *Peer) Cont() {
	p.t.Helper()
	p.signal(syscall.SIGCONT)
	p.aside = false
}

// Stop ends the process as systemd does, and it must end well.
func (p *Peer) Stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.WaitExit(30 * time.Second); code != 0 { // the unit's TimeoutStopSec
		p.t.Fatalf("%s exited with %d after SIGTERM", p.Name, code)
	}
}

// WaitExit waits until the process has ended by itself and returns its code.
func (p *Peer) WaitExit(limit time.Duration) int {
	p.t.Helper()
	if err := p.proc.Wait(limit); err != nil {
		p.t.Fatalf("%s: %v", p.Name, err)
	}
	return p.proc.Code
}

// reap kills what is left of the peer at the end of a test.
func (p *Peer) reap() {
	if p.proc == nil {
		return
	}
	if err := p.proc.End(syscall.SIGKILL, 10*time.Second); err != nil {
		p.t.Errorf("%s does not die: %v", p.Name, err)
	}
}

func socketClient(path string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 16}, Timeout: callLimit}
}

// Call speaks to the control interface. A refusal is an *httpapi.Refusal.
func (p *Peer) Call(method, path string, in, out any) error {
	return httpapi.Call(p.http, "trivet", method, path, map[string]string{"X-Request-Id": uuid.NewString()}, in, out)
}

// Status asks the peer how it stands.
func (p *Peer) Status() (s api.Status, err error) { return s, p.Call("GET", "/v1/status", nil, &s) }

// Put stores a setting; nil means that it was acknowledged.
func (p *Peer) Put(key, value string) error {
	return p.Call("PUT", "/v1/settings/user."+key, admin.Setting{Value: value}, nil)
}

// Get reads a setting, linearizably.
func (p *Peer) Get(key string) (string, error) {
	var s admin.Setting
	err := p.Call("GET", "/v1/settings/user."+key, nil, &s)
	return s.Value, err
}
