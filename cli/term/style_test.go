package term

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal returns the side of a pseudo-terminal that a program writes to.
func openTerminal(t *testing.T) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatalf("open a pseudo-terminal: %v", err)
	}
	t.Cleanup(func() {
		if err := master.Close(); err != nil {
			t.Errorf("close pseudo-terminal: %v", err)
		}
	})
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatalf("unlock pseudo-terminal: %v", err)
	}
	name, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatalf("number of pseudo-terminal: %v", err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(name), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("open pseudo-terminal: %v", err)
	}
	t.Cleanup(func() {
		if err := slave.Close(); err != nil {
			t.Errorf("close pseudo-terminal: %v", err)
		}
	})
	return slave
}

func TestColorIsForTerminals(t *testing.T) {
	terminal := openTerminal(t)
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, c := range []struct {
		name, mode string
		w          io.Writer
		env        []string
		want       bool
	}{
		{"terminal", ColorAuto, terminal, []string{"TERM=xterm"}, true},
		{"terminal, no flag parsed", "", terminal, []string{"TERM=xterm"}, true},
		{"terminal, NO_COLOR", ColorAuto, terminal, []string{"TERM=xterm", "NO_COLOR=1"}, false},
		{"terminal, NO_COLOR empty", ColorAuto, terminal, []string{"TERM=xterm", "NO_COLOR="}, true},
		{"terminal, dumb", ColorAuto, terminal, []string{"TERM=dumb"}, false},
		{"terminal, no TERM", ColorAuto, terminal, nil, false},
		{"terminal, never", ColorNever, terminal, []string{"TERM=xterm"}, false},
		{"file", ColorAuto, file, []string{"TERM=xterm"}, false},
		{"buffer", ColorAuto, new(bytes.Buffer), []string{"TERM=xterm"}, false},
		{"file, always", ColorAlways, file, []string{"TERM=dumb", "NO_COLOR=1"}, true},
	} {
		p := &Terminal{Env: c.env, Color: c.mode, Out: c.w}
		if got := p.Style().on; got != c.want {
			t.Errorf("%s: styled %v, want %v", c.name, got, c.want)
		}
	}
}

// TestStyledTableIsAligned: a table with colour is, without its sequences, the
// table without colour.
func TestStyledTableIsAligned(t *testing.T) {
	draw := func(s Style) string {
		var out bytes.Buffer
		type row struct{ Name, State, Last string }
		rows := []row{{"h1", s.BadIf(true, "silent"), "x"}, {s.BadIf(true, "höst2"), "silent", "x"}}
		if err := (&Terminal{Out: &out, Format: "table"}).Show(nil, rows); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	plain, styled := draw(Style{}), draw(Style{on: true})
	if want := "NAME   STATE   LAST\nh1     silent  x\nhöst2  silent  x\n"; plain != want {
		t.Errorf("without colour:\n%s\nwant:\n%s", plain, want)
	}
	if styled == plain || strings.NewReplacer(sgrRed, "", sgrReset, "").Replace(styled) != plain {
		t.Errorf("with colour:\n%q\nwithout:\n%q", styled, plain)
	}
}

func TestStyleMarks(t *testing.T) {
	on := Style{on: true}
	for want, got := range map[string]string{
		"\x1b[1;31mx\x1b[0m": on.Bad("x"),
		"\x1b[1;33mx\x1b[0m": on.Doubtful("x"),
		"\x1b[1mx\x1b[0m":    on.Bold("x"),
		"":                   on.Bad(""),
		"y":                  Style{}.Bad("y"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := visibleWidth("a\x1b[1;31mbc\x1b[0md"); got != 4 {
		t.Errorf("width %d, want 4", got)
	}
}
