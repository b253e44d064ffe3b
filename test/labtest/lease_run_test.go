//go:build e2e

package labtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
)

// The lease that two hosts contend for.
const (
	runTTL   = 5 * time.Second
	runLimit = 45 * time.Second // until the other host works
	longRun  = 8 * time.Minute
)

// lenderSite is three hosts, on two of which 'trivet lease run' waits for one
// lease, to have a program append its token to a file.
type lenderSite struct {
	*Lab
	file    string
	runs    [2]*program.Process
	longest worst
}

// TestLeaseRun has what the holder lives on fail in turn: its host is cut off with
// its peer, its runner is stopped, killed, or its guard is, its peer is stopped or
// killed. However it went, no line of an older token follows a newer one's first.
func TestLeaseRun(t *testing.T) {
	t.Parallel()
	l := NewHosts(t)
	l.furnish = func(p *Peer) { p.Env = append(p.Env, "TRIVET_LEASE_ENABLED=true") }
	l.Trio("a", "b", "c")
	s := &lenderSite{Lab: l, file: filepath.Join(l.dir, "lines"), longest: make(worst)}
	defer s.end()
	s.work(0)
	s.Eventually(runLimit, "the program works", func() error { return s.newer(0) })
	s.work(1)
	befalls := []func(host int) (mend func()){s.cutOff, s.stopRunner}
	if longDays() {
		befalls = append(befalls, s.killRunner, s.killGuard, s.stopPeer, s.killPeer)
		end := time.Now().Add(longRun)
		for time.Now().Before(end) {
			s.turn(befalls[rand.N(len(befalls))])
		}
	} else {
		for _, b := range befalls {
			s.turn(b)
		}
	}
	s.verdict()
}

// work starts the runner of a host. The program ignores TERM and writes as often as a
// shell can.
func (s *lenderSite) work(host int) {
	s.t.Helper()
	p := s.Peers[host]
	servers := make([]string, len(s.Peers))
	for i, peer := range s.Peers {
		servers[i] = "http://" + peer.API
	}
	script := `trap "" TERM; while :; do echo "$TRIVET_FENCING_TOKEN $1" >>"$0"; sleep 0.01; done`
	cmd := p.Host.Command(p.Binary, "lease", "run", "mirror", "--holder", p.Name, "--ttl", runTTL.String(), "--wait",
		"forever", "--takeover",
		"--server", strings.Join(servers, ","), "--", "sh", "-c", script, s.file, p.Name)
	run, err := program.Start(cmd)
	testenv.Must(s.t, err)
	s.runs[host] = run
}

// turn has something befall the holder, waits for the other, and mends it.
func (s *lenderSite) turn(befall func(host int) (mend func())) {
	s.t.Helper()
	token, holder := s.last()
	host := 0
	for i, p := range s.Peers[:2] {
		if p.Name == holder {
			host = i
		}
	}
	began := time.Now()
	mend := befall(host)
	s.Eventually(runLimit, "the other host works", func() error { return s.newer(token) })
	s.t.Logf("%s under %d: the other worked %v later", holder, token, time.Since(began).Round(10*time.Millisecond))
	mend()
	mended := time.Now()
	if err := s.runs[host].Wait(runLimit); err != nil { // the program that it ran is over
		s.t.Errorf("the runner of %s has not ended: %v", holder, err)
	}
	s.longest.took(s.t, "labtest.lease_run_ended", time.Since(mended), runTTL+5*time.Second)
	s.WaitLeader()
	s.work(host)
}

func (s *lenderSite) cutOff(host int) (mend func()) {
	s.Peers[host].Host.Cut(Peers, Site)
	return s.Peers[host].Host.Heal
}

func (s *lenderSite) stopRunner(host int) (mend func()) {
	s.signal(s.runs[host].PID(), syscall.SIGSTOP)
	return func() { s.signal(s.runs[host].PID(), syscall.SIGCONT) }
}

func (s *lenderSite) killRunner(host int) (mend func()) {
	s.signal(s.runs[host].PID(), syscall.SIGKILL)
	return func() {}
}

func (s *lenderSite) killGuard(host int) (mend func()) {
	s.signal(s.guardOf(host), syscall.SIGKILL)
	return func() {}
}

// stopPeer stops the holder's own peer, which costs it nothing: so its runner is
// stopped as well, and both go on together.
func (s *lenderSite) stopPeer(host int) (mend func()) {
	s.Peers[host].Pause()
	also := s.stopRunner(host)
	return func() { s.Peers[host].Cont(); also() }
}

func (s *lenderSite) killPeer(host int) (mend func()) {
	s.Peers[host].Kill9()
	also := s.stopRunner(host)
	return func() { s.Peers[host].Start(); also() }
}

func (s *lenderSite) signal(pid int, sig syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		s.t.Fatalf("signal %v to %d: %v", sig, pid, err)
	}
}

// guardOf finds the guard of a runner, 0 while that has none: it waits.
func (s *lenderSite) guardOf(host int) (pid int) {
	s.t.Helper()
	runner := s.runs[host].PID()
	children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", runner))
	testenv.Must(s.t, err)
	for _, file := range children {
		text, _ := os.ReadFile(file) // a thread that has ended meanwhile has none
		if n, err := fmt.Sscan(string(text), &pid); n == 1 && err == nil {
			return pid
		}
	}
	return 0
}

// lines are token and host of all whole lines, in their order.
func (s *lenderSite) lines(each func(token uint64, host string)) {
	s.t.Helper()
	text, err := os.ReadFile(s.file)
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var token uint64
		var host string
		if !strings.HasSuffix(line, "\n") {
			break
		}
		if _, err := fmt.Sscan(line, &token, &host); err != nil {
			s.t.Fatalf("%q: %v", line, err)
		}
		each(token, host)
	}
}

func (s *lenderSite) last() (token uint64, host string) {
	s.lines(func(t uint64, h string) { token, host = t, h })
	return token, host
}

func (s *lenderSite) newer(than uint64) error {
	if token, host := s.last(); token <= than {
		return fmt.Errorf("the last line is of %d, %s", token, host)
	}
	return nil
}

// verdict reads the file from its beginning.
func (s *lenderSite) verdict() {
	s.t.Helper()
	var newest uint64
	lines, grants := 0, 0
	s.lines(func(token uint64, host string) {
		lines++
		if token < newest {
			s.t.Fatalf("line %d: %s wrote under %d after a line of %d", lines, host, token, newest)
		}
		if token > newest {
			newest, grants = token, grants+1
		}
	})
	s.t.Logf("%d lines under %d tokens, and none of an older one after a newer one's first", lines, grants)
}

// end stops the runners, and waits for the guards, which end the programs.
func (s *lenderSite) end() {
	for host, r := range s.runs {
		if r == nil || !r.Running() {
			continue
		}
		guard := s.guardOf(host)
		if err := r.End(syscall.SIGKILL, runLimit); err != nil {
			s.t.Error(err)
		}
		s.Eventually(runLimit, "the guard has ended", func() error {
			if guard != 0 && syscall.Kill(guard, 0) == nil {
				return fmt.Errorf("process %d runs", guard)
			}
			return nil
		})
	}
}
