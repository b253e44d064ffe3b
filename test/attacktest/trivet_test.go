//go:build e2e

package attacktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/cli"
	"github.com/trivet-ha/trivet/cli/trivet-import/importer"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// asTrivet in the environment makes this program trivet. It is no option of trivet's.
const asTrivet = "ATTACKTEST_TRIVET"

// asImport as the first word makes it trivet-import.
const asImport = "trivet-import"

func beTrivet() int {
	if len(os.Args) > 1 && os.Args[1] == asImport {
		return importer.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr)
	}
	return cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// trivetProcess is a peer that 'trivet serve' runs in a process of its own.
type trivetProcess struct {
	*testing.T
	dir, api string
	daemon   *program.Process // nil: it does not run
}

// newTrivetProcess writes a configuration, in which DIR is a directory of the test's, and
// adds to it, and to its section api, where the peer listens. It starts nothing.
func newTrivetProcess(t *testing.T, conf string) *trivetProcess {
	p := &trivetProcess{T: t, dir: t.TempDir(), api: testenv.FreePort(t)}
	conf = strings.ReplaceAll(conf, "DIR", p.dir)
	conf = strings.Replace(conf, "api:\n", fmt.Sprintf("api:\n  listen: %q\n", p.api), 1)
	p.write("trivet.yaml", conf+fmt.Sprintf("data_dir: %s\nsocket: %s\ncluster: {listen: %q}\ngossip: {listen: %q}\n",
		p.path("d"), p.path("s"), testenv.FreePort(t), testenv.FreePort(t))+"firewall: {driver: noop}\n")
	return p
}

func (p *trivetProcess) path(name string) string { return filepath.Join(p.dir, name) }

func (p *trivetProcess) url() string { return "http://" + p.api }

func (p *trivetProcess) write(name, text string) {
	p.Helper()
	if err := os.WriteFile(p.path(name), []byte(text), 0o600); err != nil {
		p.Fatal(err)
	}
}

func (p *trivetProcess) read(name string) string {
	p.Helper()
	text, err := os.ReadFile(p.path(name))
	if err != nil {
		p.Fatal(err)
	}
	return string(text)
}

func (p *trivetProcess) command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], append(args, "--config", p.path("trivet.yaml"))...)
	cmd.Env = append(os.Environ(), asTrivet+"=1")
	cmd.Dir = p.dir
	return cmd
}

// run runs a verb and returns what it printed; a code below 0 stands for any.
func (p *trivetProcess) run(code int, args ...string) string {
	p.Helper()
	cmd := p.command(args...)
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		p.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); code >= 0 && got != code {
		p.Fatalf("trivet %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, code, &out, &talk)
	}
	if code < 0 {
		return out.String() + talk.String()
	}
	return out.String()
}

// serve starts the peer, with more in its environment, and waits until it serves.
func (p *trivetProcess) serve(env ...string) {
	p.Helper()
	cmd := p.command("serve")
	cmd.Env = append(cmd.Env, env...)
	log, err := os.OpenFile(p.path("log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		p.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if p.daemon, err = program.Start(cmd); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(p.stop)
	testwait.Until(p, "the peer serves", func() bool {
		resp, err := http.Get(p.url() + "/readyz")
		return err == nil && errors.Join(resp.Body.Close()) == nil && resp.StatusCode == http.StatusOK
	})
}

// stop stops the peer.
func (p *trivetProcess) stop() {
	if p.daemon == nil {
		return
	}
	daemon := p.daemon
	p.daemon = nil
	if !daemon.Running() {
		p.Error("the peer has ended by itself")
	}
	if err := daemon.End(syscall.SIGTERM, limit); err != nil {
		p.Error(err)
	} else if daemon.Code != 0 {
		p.Errorf("the peer stops with exit code %d", daemon.Code)
	}
}

// ask sends a request and returns the answer with its body.
func (p *trivetProcess) ask(req *http.Request) (*http.Response, string) {
	p.Helper()
	return p.answered(http.DefaultTransport, req)
}

func (p *trivetProcess) answered(by http.RoundTripper, req *http.Request) (*http.Response, string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(req.Context(), limit)
	defer cancel()
	resp, err := by.RoundTrip(req.WithContext(ctx))
	if err != nil {
		p.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		p.Fatal(err)
	}
	return resp, string(text)
}

// post posts to the API without credentials.
func (p *trivetProcess) post(path, body string) {
	p.Helper()
	req, err := http.NewRequestWithContext(p.Context(), "POST", p.url()+path, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	if resp, text := p.ask(req); resp.StatusCode >= 400 {
		p.Logf("POST %s: %s %s", path, resp.Status, text)
	}
}

// control asks the control socket.
func (p *trivetProcess) control(path string) string {
	p.Helper()
	req, err := http.NewRequestWithContext(p.Context(), "GET", "http://socket"+path, nil)
	if err != nil {
		p.Fatal(err)
	}
	_, text := p.answered(&http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", p.path("s"))
		}}, req)
	return text
}

// processes are the arguments of the peer and what it has started, and the environment of
// what it has started. The peer's own is its administrator's.
func (p *trivetProcess) processes() map[string]string {
	p.Helper()
	out := make(map[string]string)
	pids := []string{fmt.Sprint(p.daemon.PID())}
	for n := 0; n < len(pids); n++ {
		if text, err := os.ReadFile("/proc/" + pids[n] + "/cmdline"); err == nil { // it may have ended
			out["ps: arguments"] += string(text) + "\n"
		}
		if n > 0 {
			if text, err := os.ReadFile("/proc/" + pids[n] + "/environ"); err == nil {
				out["ps: environment of programs"] += string(text) + "\n"
			}
		}
		tasks, _ := filepath.Glob("/proc/" + pids[n] + "/task/*/children") // the pattern is good
		for _, task := range tasks {
			if text, err := os.ReadFile(task); err == nil {
				pids = append(pids, strings.Fields(string(text))...)
			}
		}
	}
	return out
}
