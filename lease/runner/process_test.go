//go:build e2e

package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	api "github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/client/lease"
	"github.com/trivet-ha/trivet/lease/runner"
	"github.com/trivet-ha/trivet/test/lender"
	"github.com/trivet-ha/trivet/test/testwait"
)

// The lease of these tests.
const (
	name   = "backup"
	ttl    = 2100 * time.Millisecond
	margin = ttl / 3
)

// Exit codes of the runner here.
const (
	codeLost    = 75
	codeRefused = 4
	codeFailed  = 1
)

// TestMain has this binary be runner, guard and program as well: what is tested are
// processes.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "guard":
			grace, err := time.ParseDuration(os.Args[2])
			if err != nil {
				panic(err)
			}
			os.Exit(runner.Guard(grace, os.Args[3:]))
		case "run": // URL HOLDER WAIT COMMAND…
			os.Exit(runHere(os.Args[2], os.Args[3], os.Args[4], os.Args[5:]))
		case "work": // FILE [stubborn] [escape]
			work(os.Args[2], os.Args[3:])
		}
	}
	os.Exit(m.Run())
}

func runHere(url, holder, wait string, command []string) int {
	limit, err := time.ParseDuration(wait)
	if err != nil {
		panic(err)
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, runner.Forwarded()...)
	code, err := runner.Run(context.Background(), runner.Options{
		Lease: lease.Options{API: api.Options{Servers: []string{url}}, Name: name, Holder: holder, TTL: ttl},
		Wait:  limit, Guard: []string{"trivet", "guard"}, Command: command,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Environ(), Signals: signals,
		Warn: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
	})
	var never *runner.NotStartedError
	switch {
	case err == nil:
		return code
	case errors.As(err, &never):
		code = never.Code
	case errors.Is(err, lease.ErrLost), errors.Is(err, lease.ErrDeadline):
		code = codeLost
	case api.HasStatus(err, http.StatusConflict):
		code = codeRefused
	default:
		code = codeFailed
	}
	fmt.Fprintln(os.Stderr, err)
	return code
}

const (
	workEvery = 3 * time.Millisecond // between two lines of the program
	workFor   = time.Minute          // then it ends, should nobody have ended it
)

// work appends lines, token and time, until it is killed.
func work(file string, how []string) {
	for _, word := range how {
		switch word {
		case "stubborn":
			signal.Ignore(syscall.SIGTERM)
		case "escape": // another of a session of its own goes on, and this one ends
			cmd := exec.Command(os.Args[0], "work", file, "stubborn")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := cmd.Start(); err != nil {
				panic(err)
			}
			for range time.NewTicker(workEvery).C {
				if info, err := os.Stat(file); err == nil && info.Size() > 0 {
					os.Exit(0)
				}
			}
		case "both": // the same, and this one goes on
			cmd := exec.Command(os.Args[0], "work", file, "stubborn")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := cmd.Start(); err != nil {
				panic(err)
			}
		}
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	end := time.Now().Add(workFor)
	for now := range time.NewTicker(workEvery).C {
		if now.After(end) {
			os.Exit(0)
		}
		if _, err := fmt.Fprintf(
			f, "%s %d %d\n", os.Getenv(runner.TokenVariable), time.Now().UnixNano(), os.Getpid()); err != nil {
			panic(err)
		}
	}
}

// line is what the program wrote.
type line struct {
	token uint64
	at    time.Time
	pid   int
}

// bench is a lender on loopback, and the file that programs write.
type bench struct {
	*lender.Lender
	*httptest.Server
	file string

	silent atomic.Value // the holder that is not answered, a string
}

func newBench(t *testing.T) *bench {
	t.Parallel()
	b := &bench{Lender: lender.New(), file: filepath.Join(t.TempDir(), "lines")}
	ended := make(chan struct{})
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, err := io.ReadAll(r.Body)
		if err != nil {
			return // it gave up
		}
		if holder := b.silent.Load(); holder != nil && bytes.Contains(asked, []byte(`"`+holder.(string)+`"`)) {
			select {
			case <-r.Context().Done():
			case <-ended:
			}
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(asked))
		b.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { close(ended); b.Close() })
	t.Cleanup(func() {
		for pid := range b.workers(t) {
			if alive(pid) { // a test has failed
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	return b
}

// cut has a holder hear nothing any more.
func (b *bench) cut(holder string) { b.silent.Store(holder) }

// lines are all that was written so far.
func (b *bench) lines(t *testing.T) (all []line) {
	t.Helper()
	text, err := os.ReadFile(b.file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for written := range strings.Lines(string(text)) {
		if !strings.HasSuffix(written, "\n") {
			break // it is being written
		}
		var l line
		var at int64
		if _, err := fmt.Sscan(written, &l.token, &at, &l.pid); err != nil {
			t.Fatalf("%q: %v", written, err)
		}
		l.at = time.Unix(0, at)
		all = append(all, l)
	}
	return all
}

// last is the last line; the test fails if there is none.
func (b *bench) last(t *testing.T) line {
	t.Helper()
	all := b.lines(t)
	if len(all) == 0 {
		t.Fatal("the program wrote nothing")
	}
	return all[len(all)-1]
}

// run is a runner's process.
type run struct {
	cmd  *exec.Cmd
	talk *buffer
	done chan struct{} // closed at its end
}

// launch starts a runner.
func (b *bench) launch(t *testing.T, holder, wait string, command ...string) *run {
	t.Helper()
	r := &run{cmd: exec.Command("/proc/self/exe", append([]string{"run", b.URL, holder, wait}, command...)...),
		talk: &buffer{}, done: make(chan struct{})}
	r.cmd.Stdout, r.cmd.Stderr = r.talk, r.talk
	r.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // else every process ends a second later
	r.cmd.WaitDelay = 5 * time.Second
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.done)
		_ = r.cmd.Wait() // the code is in ProcessState
	}()
	t.Cleanup(func() {
		r.signal(syscall.SIGCONT)
		r.signal(syscall.SIGKILL)
		testwait.Receive(t, r.done, "the killed runner ends")
		if t.Failed() {
			t.Logf("%s said: %s", holder, r.talk)
		}
	})
	return r
}

// worker starts a runner of this binary's program, and waits until that works.
func (b *bench) worker(t *testing.T, holder string, how ...string) *run {
	t.Helper()
	r := b.launch(t, holder, "-1ns", append([]string{os.Args[0], "work", b.file}, how...)...)
	testwait.Until(t, "the program works", func() bool { return len(b.lines(t)) > 0 })
	return r
}

func (r *run) signal(s syscall.Signal) { _ = r.cmd.Process.Signal(s) } // it has ended: as it should be

// code waits for its end.
func (r *run) code(t *testing.T) int {
	t.Helper()
	testwait.Receive(t, r.done, "the runner ends")
	status := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// guard finds the runner's only child.
func (r *run) guard(t *testing.T) int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if fields[1] != strconv.Itoa(r.cmd.Process.Pid) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	t.Fatal("the runner has no guard")
	return 0
}

// alive reports whether a process runs.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return fields[0] != "Z" && fields[0] != "X"
}

// workers are all programs that wrote a line.
func (b *bench) workers(t *testing.T) map[int]bool {
	pids := make(map[int]bool)
	for _, l := range b.lines(t) {
		pids[l.pid] = true
	}
	return pids
}

// noneLeft waits until no program runs.
func (b *bench) noneLeft(t *testing.T) {
	t.Helper()
	testwait.Until(t, "no program runs", func() bool {
		for pid := range b.workers(t) {
			if alive(pid) {
				return false
			}
		}
		return true
	})
}

// buffer may be written and read at once.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns all of it.
func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
