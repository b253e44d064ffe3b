package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm/fencing"
)

// exitLimit bounds what a peer takes to end after a signal.
const exitLimit = 20 * time.Second

// anyPort at the end of a setting is a free port of each process, on every address: an API
// server would not reach a webhook on the loopback, and 'trivet init' refuses that.
const anyPort = "127.0.0.1:0"

// process is one peer as an operator runs it: `trivet serve`, talked to over
// its unix socket.
type process struct {
	name    string
	binary  string
	address string            // of the peers' port
	api     string            // address of the REST API
	dir     string            // of its data
	more    map[string]string // further addresses, by option
	socket  string            // for requests
	env     []string          // its configuration
	log     string            // file that takes what it says
	http    *http.Client
	serving *exec.Cmd // nil while it does not run
}

// newProcess lays a peer out below root. Settings are those of its
// configuration that differ from what the bench gives every peer.
func newProcess(binary, root, name string, settings map[string]string) (*process, error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	p := &process{
		name: name, binary: binary, address: ports[0], api: ports[2],
		socket: filepath.Join(root, name+".sock"), log: filepath.Join(root, name+".log"), env: os.Environ(),
	}
	all := map[string]string{
		"name": name, "data_dir": filepath.Join(root, name), "socket": p.socket,
		"cluster.listen": ports[0], "gossip.listen": ports[1], "api.listen": ports[2],
		"firewall.driver": "noop",
	}
	p.dir, p.more = all["data_dir"], make(map[string]string)
	for key, value := range settings {
		before, any := strings.CutSuffix(value, anyPort)
		if any {
			ports, err := freePorts(1)
			if err != nil {
				return nil, err
			}
			_, port, _ := net.SplitHostPort(ports[0]) // it was made of both
			p.more[key], value = ports[0], before+":"+port
		}
		all[key] = value
	}
	for key, value := range all {
		option, known := config.Lookup(key)
		if !known {
			return nil, fmt.Errorf("trivet has no option %s", key)
		}
		p.env = append(p.env, option.Env()+"="+value)
	}
	p.http = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", p.socket)
		}}}
	return p, nil
}

// command runs one of trivet's short commands and returns what it printed.
func (p *process) command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, p.binary, args...)
	cmd.Env = p.env
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("trivet %s: %w\n%s", args[0], err, said.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

// serve starts the peer. It does not outlive this process.
func (p *process) serve() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("log of %s: %w", p.name, err)
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(p.binary, "serve")
	cmd.Env, cmd.Stderr = p.env, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := startAsUnit(cmd); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.serving = cmd
	return nil
}

// unitFile is the unit of the package, from the bench's folder.
const unitFile = "../../packaging/files/trivet.service"

// startAsUnit starts a peer whose timers may be as late as the unit lets them: it spares a peer
// that has nothing to do a quarter of its processor time. A process has the slack of the thread that
// starts it.
func startAsUnit(cmd *exec.Cmd) (err error) {
	slack, err := unitTimerSlack()
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0); err != nil {
		return fmt.Errorf("set the slack of timers: %w", err)
	}
	defer func() { // 0: as it was
		err = errors.Join(err, unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0))
	}()
	return cmd.Start()
}

func unitTimerSlack() (time.Duration, error) {
	text, err := os.ReadFile(unitFile)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, is := strings.CutPrefix(strings.TrimSpace(line), "TimerSlackNSec="); is {
			return time.ParseDuration(value) // of systemd's units it has µs
		}
	}
	return 0, fmt.Errorf("%s has no TimerSlackNSec=", unitFile)
}

// signal sends a signal and returns when it was sent; reap waits for the end.
func (p *process) signal(s os.Signal) (time.Time, error) {
	at := time.Now()
	return at, p.serving.Process.Signal(s)
}

// reap waits until the process has ended, and kills it if that takes too long.
func (p *process) reap() error {
	cmd := p.serving
	p.serving = nil
	ended := make(chan struct{}) // closed when Wait has returned
	late := time.AfterFunc(exitLimit, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the signal is its error
	}()
	<-ended
	if !late.Stop() {
		return fmt.Errorf("%s did not end within %v of its signal", p.name, exitLimit)
	}
	return nil
}

// ask sends one request to the peer and decodes its answer into out.
func (p *process) ask(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode a request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://trivet"+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s: %s", p.name, resp.Status, text)
	}
	return json.Unmarshal(text, out)
}

// put writes a setting; the token says where in the log it went.
func (p *process) put(ctx context.Context) (fencing.Token, error) {
	var out admin.Setting
	err := p.ask(ctx, http.MethodPut, "/v1/settings/user.bench", admin.Setting{Value: time.Now().String()}, &out)
	return out.Token, err
}

func (p *process) status(ctx context.Context) (out api.Status, err error) {
	err = p.ask(ctx, http.MethodGet, "/v1/status", nil, &out)
	return out, err
}

// awaitReady waits until the peer answers, is ready and has applied index.
func (p *process) awaitReady(ctx context.Context, index uint64) error {
	err := until(ctx, p.name+" to be ready", func() bool {
		s, err := p.status(ctx)
		return err == nil && s.Ready && s.Index >= index
	})
	if err != nil {
		return fmt.Errorf("%w; %s", err, p.lastWords())
	}
	return nil
}

// lastWords is the end of what the peer has logged: why it does not run, if it does not.
func (p *process) lastWords() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return "its log cannot be read: " + err.Error()
	}
	const most = 1000
	return fmt.Sprintf("its log ends with:\n%s", text[max(0, len(text)-most):])
}

// end stops the peer for good; it may be ended already.
func (p *process) end() error {
	if p.serving == nil {
		return nil
	}
	_, err := p.signal(syscall.SIGKILL)
	return errors.Join(err, p.reap())
}
