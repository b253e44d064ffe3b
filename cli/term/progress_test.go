package term

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/test/testenv"
)

// TestBar: on a terminal one line is drawn over itself, never wider than the
// terminal, and taken away in the end.
func TestBar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		g := &Progress{w: &out, cols: func() int { return 50 }, began: time.Now()}
		for i := range 11 {
			g.Show(i, 10, "3 waiting, 4 finished, and more that does not fit there")
			time.Sleep(drawEvery / 2)
		}
		g.Clear()
		g.Clear()
		drawn := strings.Split(out.String(), "\r\x1b[K")
		if len(drawn) != 1+6+1 || drawn[0] != "" || drawn[7] != "" {
			t.Fatalf("%q", drawn)
		}
		for _, line := range drawn {
			if n := utf8.RuneCountInString(line); n > 49 || strings.Contains(line, "\n") {
				t.Errorf("%d columns: %q", n, line)
			}
		}
		if want := "[========            ] 4/10  3 waiting, 4 finish…"; drawn[3] != want {
			t.Errorf("%q, want %q", drawn[3], want)
		}
	})
}

// TestLines: elsewhere a line is written when something changed, and not often.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := &Terminal{Err: &out, Env: []string{"TERM=xterm"}}
		g := p.NewProgress()
		for i := range 100 { // 20 s
			g.Show(i/40, 10, fmt.Sprint(i/40, " finished"))
			time.Sleep(drawEvery)
		}
		g.Clear()
		want := "trivet: 0 of 10 done: 0 finished (0s)\ntrivet: 1 of 10 done: 1 finished (8s)\ntrivet: 2 of 10 done: 2 finished (16s)\n"
		if out.String() != want {
			t.Errorf("%q", out.String())
		}
		out.Reset()
		p.Quiet = true
		p.NewProgress().Show(1, 2, "x")
		if out.Len() > 0 {
			t.Errorf("with --quiet: %q", out.String())
		}
	})
}

// TestTerminal: a terminal is told from a file, with its width.
func TestTerminal(t *testing.T) {
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		testenv.Missing(t, "open /dev/ptmx: %v", err)
	}
	defer pty.Close()
	fd := int(pty.Fd())
	if got := Columns(pty); got != usualCols {
		t.Errorf("a terminal that does not say is %d columns wide", got)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 132}); err != nil {
		t.Fatal(err)
	}
	if got := Columns(pty); got != 132 {
		t.Errorf("%d columns", got)
	}
	file, err := os.Create(t.TempDir() + "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if Columns(file) != 0 || Columns(&bytes.Buffer{}) != 0 {
		t.Error("a file is a terminal")
	}
	p := &Terminal{Err: pty, Env: []string{"TERM=dumb"}}
	if p.NewProgress().cols() != 0 {
		t.Error("a dumb terminal is drawn on")
	}
	p.Env = []string{"TERM=xterm"}
	if p.NewProgress().cols() != 132 {
		t.Error("a terminal is not drawn on")
	}
}
