//go:build e2e

package openstack

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// readyLimit is what a service may take from its start to its first useful
// answer: 5 s on an idle machine, several times that next to other tests.
const readyLimit = 90 * time.Second

// service is a program of OpenStack that one test runs, in a directory of its own that
// lives as long as the test.
type service struct {
	t    testing.TB
	what string // as messages call it
	log  string // the file that it writes in its directory, next to what it prints
	dir  string
	proc *program.Process
}

// newService installs packages unless the programs are there, and makes the directory.
// Its caller has close called when the test ends.
func newService(t testing.TB, what, log string, programs []string, packages ...string) service {
	t.Helper()
	testenv.NeedRoot(t)
	for _, path := range programs {
		if !program.Installed(path) {
			program.Install(t, what, packages...)
			break
		}
	}
	dir, err := os.MkdirTemp("", "trivet-openstack-")
	testenv.Must(t, err)
	return service{t: t, what: what, log: log, dir: dir}
}

func (s *service) path(name string) string { return filepath.Join(s.dir, name) }

// command is a program with nothing of the tester's environment: another Python's
// variables would lead it astray.
func (s *service) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + s.dir, "LANG=C.UTF-8"}
	return cmd
}

// manage runs a program that ends.
func (s *service) manage(name string, args ...string) {
	s.t.Helper()
	if out, err := s.command(name, args...).CombinedOutput(); err != nil {
		s.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, program.Tail(string(out), 20))
	}
}

// run starts the service and waits until ready returns no error.
func (s *service) run(cmd *exec.Cmd, ready func() error) {
	s.t.Helper()
	s.proc = program.StartLogged(s.t, cmd, s.path("stdout.log"))
	testwait.Within(s.t, readyLimit, s.what+" is ready", func() error {
		if !s.proc.Running() {
			s.t.Fatalf("%s exited with %d:\n%s", s.what, s.proc.Code, s.logs())
		}
		return ready()
	})
}

// Stop ends the process; the database stays.
func (s *service) Stop() {
	s.t.Helper()
	if err := s.proc.End(syscall.SIGTERM, 20*time.Second); err != nil {
		s.t.Fatalf("stop %s: %v", s.what, err)
	}
}

// Pause makes the service fall silent with its connections open.
func (s *service) Pause() { s.signal(syscall.SIGSTOP) }

// Cont ends a Pause.
func (s *service) Cont() { s.signal(syscall.SIGCONT) }

func (s *service) signal(signal syscall.Signal) {
	s.t.Helper()
	if err := s.proc.Signal(signal); err != nil {
		s.t.Fatalf("%v for %s: %v", signal, s.what, err)
	}
}

func (s *service) close() {
	var err error
	if s.proc != nil {
		err = s.proc.End(syscall.SIGKILL, 10*time.Second)
	}
	if s.t.Failed() {
		s.t.Logf("--- %s wrote (end of it):\n%s", s.what, s.logs())
	}
	if err := errors.Join(err, os.RemoveAll(s.dir)); err != nil {
		s.t.Errorf("clean up after %s: %v", s.what, err)
	}
}

// logs returns the ends of what the service wrote.
func (s *service) logs() string {
	var out strings.Builder
	for _, name := range []string{"stdout.log", s.log} {
		if text, err := os.ReadFile(s.path(name)); err == nil { // it may have died before it wrote one
			out.WriteString(program.Tail(string(text), 30))
		}
	}
	return out.String()
}
