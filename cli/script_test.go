package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/internal/msgcheck"
	"github.com/trivet-ha/trivet/internal/testwait"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"trivet": func() { os.Exit(Main(os.Args[1:], os.Stdin, checked(os.Stdout), checked(os.Stderr))) },
	})
}

// checked ends the process in a way that no test expects when it writes a
// message that was put together wrongly, in an answer or in the log of a daemon.
func checked(w *os.File) io.Writer {
	return msgcheck.Writer(w, func(wrong string) {
		fmt.Fprintf(os.Stderr, "trivet: wrong message: %s\n", wrong)
		os.Exit(exitWrongMessage)
	})
}

// exitWrongMessage is none of the exit codes of trivet.
const exitWrongMessage = 99

// TestScripts runs the command line as a person or a script would.
func TestScripts(t *testing.T) {
	source, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else every command takes a second longer
			env.Setenv("SOURCE", source)
			env.Setenv("TRIVET_DATA_DIR", env.WorkDir+"/d")
			env.Setenv("TRIVET_SOCKET", env.WorkDir+"/d.sock")
			for i, address := range freeAddresses(t, 3) {
				env.Setenv("TRIVET_"+[]string{"API", "CLUSTER", "GOSSIP"}[i]+"_LISTEN", address)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":         code,
			"trivet-serve": startDaemon,
			"trivet-stop":  stopDaemon,
			"fake-api":     startFakeAPI,
			"database":     fillDatabase,
			"await-leader": func(ts *testscript.TestScript, _ bool, _ []string) { awaitLeader(ts) },
		},
	})
}

// freeAddresses returns addresses of loopback that differ: all are held until
// the last one is known.
func freeAddresses(t *testing.T, n int) (addresses []string) {
	t.Helper()
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		addresses = append(addresses, ln.Addr().String())
	}
	return addresses
}

// code runs a command that must end with an exit code: code N COMMAND ARG…
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND ARG…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := exitCode(ts, args[1], args[2:]...); got != want {
		ts.Fatalf("%v: exit %d, want %d", args[1:], got, want)
	}
}

func exitCode(ts *testscript.TestScript, name string, args ...string) int {
	var exit *exec.ExitError
	switch err := ts.Exec(name, args...); {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	default:
		ts.Fatalf("%s: %v", name, err)
		return -1
	}
}

// daemonCommand is trivet with the environment of the script.
func daemonCommand(ts *testscript.TestScript, args ...string) *exec.Cmd {
	path, err := exec.LookPath("trivet") // testscript.Main put it there
	ts.Check(err)
	cmd := exec.Command(path, args...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "GORACE", "TRIVET_CONFIG", "TRIVET_DATA_DIR", "TRIVET_SOCKET", "TRIVET_API_LISTEN", "TRIVET_CLUSTER_LISTEN", "TRIVET_GOSSIP_LISTEN"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	for _, name := range []string{"TRIVET_DOCTOR_DNSMASQ_CONF", "TRIVET_DOCTOR_KEEPALIVED_CONF"} {
		if value := ts.Getenv(name); value != "" { // empty it would be a mistake
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Env = append(cmd.Env, "TRIVET_FIREWALL_DRIVER=noop") // the filter of the tester's own host stays as it is
	return cmd
}

// startDaemon runs trivet serve in the background until it leads.
func startDaemon(ts *testscript.TestScript, _ bool, _ []string) {
	log, err := os.Create(ts.MkAbs("serve.log"))
	ts.Check(err)
	cmd := daemonCommand(ts, "serve")
	cmd.Stderr = log
	ts.Check(cmd.Start())
	ts.Check(log.Close())
	ts.Setenv("SERVE_PID", strconv.Itoa(cmd.Process.Pid))
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	ts.Defer(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		if _, err := testwait.Take(testwait.Limit, done, "the daemon stops"); err != nil {
			_ = cmd.Process.Kill() // it may have ended at last
			_, late := testwait.Take(testwait.Limit, done, "the killed daemon ends")
			ts.Check(errors.Join(err, late))
		}
	})
	awaitLeader(ts)
}

// awaitLeader polls trivet status until this peer leads, is ready, and has noticed
// that no Ironic answers, as in every script: status is degraded from then on.
func awaitLeader(ts *testscript.TestScript) {
	err := testwait.Poll(context.Background(), testwait.Limit, "this peer leads and is ready", func() error {
		out, err := daemonCommand(ts, "status", "-o", "json").Output() // degraded is exit code 2
		var s api.Status
		if json.Unmarshal(out, &s) == nil && s.Role == "leader" && s.Ready && s.Health == api.Degraded {
			return nil
		}
		return fmt.Errorf("role %q, ready %v, %w", s.Role, s.Ready, err)
	})
	if err != nil {
		ts.Fatalf("%v:\n%s", err, ts.ReadFile("serve.log"))
	}
}

// stopDaemon ends it as systemd does, and shows what it logged as its
// standard error.
func stopDaemon(ts *testscript.TestScript, _ bool, _ []string) {
	pid, err := strconv.Atoi(ts.Getenv("SERVE_PID"))
	ts.Check(err)
	p, err := os.FindProcess(pid)
	ts.Check(err)
	ts.Check(p.Signal(os.Interrupt))
	err = testwait.Poll(context.Background(), testwait.Limit, "the daemon stops", func() error {
		if p.Signal(syscall.Signal(0)) == nil {
			return errors.New("it runs")
		}
		return nil
	})
	if err != nil {
		ts.Fatalf("%v:\n%s", err, ts.ReadFile("serve.log"))
	}
	ts.Check(ts.Exec("sh", "-c", fmt.Sprintf("cat %s >&2", ts.MkAbs("serve.log"))))
}
