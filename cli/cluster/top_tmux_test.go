//go:build e2e

package cluster

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/cli/servers"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// topServer names in the environment of this binary the server that top asks: then the
// binary is top, and its clock stands still.
const topServer = "TRIVET_TEST_TOP_SERVER"

func TestMain(m *testing.M) {
	if server := os.Getenv(topServer); server != "" {
		os.Exit(beTop(server))
	}
	os.Exit(m.Run())
}

func beTop(server string) int {
	p := &term.Terminal{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ(), Wall: topTime}
	flags := servers.New(p, nil, pflag.NewFlagSet("top", pflag.ContinueOnError))
	flags.Servers = []string{server}
	if err := runTop(context.Background(), p, nil, flags); err != nil {
		p.Complain(err)
		return term.ExitOf(err)
	}
	return term.ExitOK
}

// tmux is a terminal that a test looks at.
type tmux struct {
	t      *testing.T
	socket string
}

func (m *tmux) do(args ...string) string {
	m.t.Helper()
	args = append([]string{"-u", "-S", m.socket, "-f", "/dev/null"}, args...)
	out, err := exec.Command("tmux", args...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

// openTmux runs this binary as top in a terminal of a size. What it leaves there is shown until the test ends.
func openTmux(t *testing.T, cols, rows int, env ...string) *tmux {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		testenv.Missing(t, "no tmux here: apt-get install tmux")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := &tmux{t, filepath.Join(t.TempDir(), "tmux")}
	script := fmt.Sprintf("stty -g > %[1]s.before\nsh -c 'echo $$ > %[1]s.pid; exec env %[2]s %[3]s'\n"+
		"echo ended: $?\nstty -g > %[1]s.after\nsleep 600\n", m.socket, strings.Join(env, " "), self)
	if err := os.WriteFile(m.socket+".sh", []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	m.do("new-session", "-d", "-x", fmt.Sprint(cols), "-y", fmt.Sprint(rows),
		"sh "+m.socket+".sh")
	t.Cleanup(func() { m.do("kill-server") })
	return m
}

// shows waits for a text and returns the whole terminal.
func (m *tmux) shows(want string) (shown string) {
	m.t.Helper()
	testwait.Within(m.t, testwait.Limit, "the terminal shows "+want, func() error {
		if shown = m.do("capture-pane", "-p"); !strings.Contains(shown, want) {
			return fmt.Errorf("it shows\n%s", shown)
		}
		return nil
	})
	return shown
}

// restored fails the test unless the terminal is as it was before the command.
func (m *tmux) restored() {
	m.t.Helper()
	var before, after []byte
	testwait.Within(m.t, testwait.Limit, "the settings of the terminal", func() (err error) {
		before, err = os.ReadFile(m.socket + ".before")
		if err == nil {
			after, err = os.ReadFile(m.socket + ".after")
		}
		if err == nil && len(after) == 0 {
			err = fmt.Errorf("they are not written yet")
		}
		return err
	})
	if string(before) != string(after) {
		m.t.Errorf("top-gives-back: the terminal is\n%s\nand was\n%s", after, before)
	}
	if flags := m.do("display-message", "-p", "#{alternate_on} #{cursor_flag}"); flags != "0 1\n" {
		m.t.Errorf("top-gives-back: alternate screen and cursor: %s", flags)
	}
}

// serveTop serves the peers of the golden files.
func serveTop(t *testing.T) (env string) {
	t.Helper()
	p := &topPeers{status: topStatus(), events: topEvents()}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, header := p.answer(r)
		for key, values := range header {
			w.Header()[key] = values
		}
		if _, err := w.Write(body); err != nil {
			return // the command has ended
		}
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return topServer + "=" + server.URL
}

// TestTopInTmux compares what a real terminal shows with the golden files, at both sizes and after a
// change of size, and that the terminal is given back.
func TestTopInTmux(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {200, 50}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			m := openTmux(t, size[0], size[1], serveTop(t))
			m.shows("node-30")
			goldenTop(t, fmt.Sprintf("top-%dx%d.golden", size[0], size[1]), m.do("capture-pane", "-p"))
			m.do("send-keys", "?")
			m.shows("this help")
			goldenTop(t, fmt.Sprintf("tophelp-%dx%d.golden", size[0], size[1]), m.do("capture-pane", "-p"))
			m.do("send-keys", "?")
			other := [2]int{280 - size[0], 74 - size[1]} // the other of the two
			m.do("resize-window", "-x", fmt.Sprint(other[0]), "-y", fmt.Sprint(other[1]))
			want, err := os.ReadFile(filepath.Join("testdata", fmt.Sprintf("top-%dx%d.golden", other[0], other[1])))
			if err != nil {
				t.Fatal(err)
			}
			m.shows(string(want))
			m.do("send-keys", "q")
			m.shows("ended: 0")
			m.restored()
		})
	}
}

// A process that is told to end gives the terminal back. With NO_COLOR it has drawn without colour.
func TestTopIsEndedBySignals(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT} {
		m := openTmux(t, 80, 24, serveTop(t), "NO_COLOR=1")
		m.shows("node-30")
		if got := m.do("capture-pane", "-p", "-e"); regexp.MustCompile("\x1b\\[[0-9;]*[34][0-7]").MatchString(got) {
			t.Errorf("top-without-colour: %q", got)
		}
		text, err := os.ReadFile(m.socket + ".pid")
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, signal); err != nil {
			t.Fatal(err)
		}
		m.shows("ended: 0")
		m.restored()
	}
}
