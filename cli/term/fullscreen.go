package term

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	xterm "golang.org/x/term"
)

// Keys of a FullScreen, besides characters, which are named by themselves.
const (
	KeyUp        = "up"
	KeyDown      = "down"
	KeyPageUp    = "page up"
	KeyPageDown  = "page down"
	KeyHome      = "home"
	KeyEnd       = "end"
	KeyEnter     = "enter"
	KeyEscape    = "escape"
	KeyRubOut    = "rub out"
	KeyInterrupt = "interrupt"
	KeyResized   = "resized" // no key: the terminal has another size
)

// What a terminal is told, in sequences that every one of the last decades knows: another screen than that
// of the shell, no cursor, and no line that goes on in the next.
const (
	takeOver  = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	giveBack  = sgrReset + "\x1b[?7h\x1b[?25h\x1b[?1049l"
	home      = "\x1b[H"
	wipe      = "\x1b[2J"
	wipeLine  = "\x1b[K"
	wipeBelow = "\x1b[J"
)

// drawLimit bounds writing to a terminal that takes nothing.
const drawLimit = 5 * time.Second

// maxKeys bounds the bytes that are read of what is typed, or pasted, at once.
const maxKeys = 256

// FullScreen is the terminal of this process, which a command has for itself. Its methods belong to one
// goroutine.
type FullScreen struct {
	tty    *os.File // opened for this alone: its end ends the reading
	before *xterm.State
	last   string // what is drawn
	keys   chan string
	ctx    context.Context // ends with Close
	end    context.CancelFunc
	work   sync.WaitGroup
}

// TakeScreen takes the terminal over; Close gives it back as it was.
func (t *Terminal) TakeScreen() (*FullScreen, error) {
	refuse := func(err error) error {
		return Fail(ExitUsage, "'trivet status' and 'trivet watch' draw nothing", "draw on the terminal: %w", err)
	}
	if t.Variable("TERM", "dumb") == "dumb" {
		return nil, refuse(errors.New("TERM says that it can do nothing: dumb"))
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, refuse(err)
	}
	s := &FullScreen{tty: tty, keys: make(chan string)}
	if err := s.control(func(fd int) (err error) { s.before, err = xterm.MakeRaw(fd); return err }); err != nil {
		return nil, refuse(errors.Join(err, tty.Close()))
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	resized := make(chan os.Signal, 1) // never closed
	signal.Notify(resized, syscall.SIGWINCH)
	s.work.Go(s.readKeys)
	s.work.Go(func() {
		defer signal.Stop(resized)
		for s.ctx.Err() == nil {
			select {
			case <-resized:
				s.pass(KeyResized)
			case <-s.ctx.Done():
			}
		}
	})
	if err := s.write(takeOver + wipe); err != nil {
		return nil, refuse(errors.Join(err, s.Close()))
	}
	return s, nil
}

// control gives the terminal's descriptor to a function without making it one that blocks.
func (s *FullScreen) control(do func(fd int) error) error {
	raw, err := s.tty.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Control(func(fd uintptr) { err = do(int(fd)) })
	return errors.Join(failed, err)
}

// Size returns the columns and rows that there are; 80 and 24 where the terminal does not say.
func (s *FullScreen) Size() (cols, rows int) {
	err := s.control(func(fd int) (err error) { cols, rows, err = xterm.GetSize(fd); return err })
	if err != nil || cols == 0 || rows == 0 {
		return usualCols, usualRows
	}
	return cols, rows
}

// usualRows are those of a terminal that does not say.
const usualRows = 24

// Draw shows these rows in the place of what was shown. Only the marks of a Style steer the terminal.
func (s *FullScreen) Draw(rows []string) error {
	var out strings.Builder
	shield := screen{out: &out}
	out.WriteString(home)
	for i, row := range rows {
		if i > 0 {
			out.WriteString("\r\n")
		}
		out.WriteString(wipeLine) // not behind the row: the cursor stays on a last column that is full
		if _, err := shield.WriteString(row); err != nil {
			return err
		}
	}
	if _, all := s.Size(); len(rows) < all {
		out.WriteString("\r\n" + wipeBelow)
	}
	if out.String() == s.last {
		return nil
	}
	s.last = out.String()
	return s.write(s.last)
}

func (s *FullScreen) write(text string) error {
	if err := s.tty.SetWriteDeadline(time.Now().Add(drawLimit)); err != nil {
		return fmt.Errorf("draw on the terminal: %w", err)
	}
	if _, err := s.tty.WriteString(text); err != nil {
		return fmt.Errorf("draw on the terminal: %w", err)
	}
	return nil
}

// Keys returns where keys are passed on. It is never closed.
func (s *FullScreen) Keys() <-chan string { return s.keys }

// Close gives the terminal back. It may be called again.
func (s *FullScreen) Close() error {
	if s.ctx.Err() != nil {
		return nil
	}
	s.end()
	restored := s.control(func(fd int) error { return xterm.Restore(fd, s.before) })
	err := errors.Join(s.write(giveBack), restored, s.tty.Close())
	s.work.Wait()
	return err
}

// readKeys passes keys on until the terminal is given back, or is gone.
func (s *FullScreen) readKeys() {
	for typed := make([]byte, maxKeys); ; {
		n, err := s.tty.Read(typed)
		for _, key := range keysOf(string(typed[:n])) {
			s.pass(key)
		}
		if err != nil { // a terminal that is gone ends the command by SIGHUP
			return
		}
	}
}

func (s *FullScreen) pass(key string) {
	select {
	case s.keys <- key:
	case <-s.ctx.Done():
	}
}

// sequences are what terminals send for keys, by VT220 and xterm in both of their modes.
func sequences() map[string]string {
	return map[string]string{
		"\x1b[A": KeyUp, "\x1bOA": KeyUp, "\x1b[B": KeyDown, "\x1bOB": KeyDown, "\x1b[5~": KeyPageUp, "\x1b[6~": KeyPageDown,
		"\x1b[H": KeyHome, "\x1bOH": KeyHome, "\x1b[1~": KeyHome, "\x1b[7~": KeyHome,
		"\x1b[F": KeyEnd, "\x1bOF": KeyEnd, "\x1b[4~": KeyEnd, "\x1b[8~": KeyEnd,
		"\r": KeyEnter, "\n": KeyEnter, "\x7f": KeyRubOut, "\b": KeyRubOut, "\x03": KeyInterrupt,
	}
}

// keysOf names the keys of what was typed. Those that have no name are left out.
func keysOf(typed string) (keys []string) {
	known := sequences()
	for typed != "" {
		r, size := utf8.DecodeRuneInString(typed)
		switch { // one key sends a sequence (ECMA-48) as a whole, or a character
		case len(typed) > 2 && strings.HasPrefix(typed, "\x1bO"):
			size = 3
		case len(typed) > 2 && strings.HasPrefix(typed, "\x1b["):
			size = len(typed)
			if last := strings.IndexFunc(typed[2:], func(r rune) bool { return r >= '@' && r <= '~' }); last >= 0 {
				size = 2 + last + 1
			}
		}
		one := typed[:size]
		typed = typed[size:]
		switch name := known[one]; {
		case name != "":
			keys = append(keys, name)
		case one == "\x1b":
			keys = append(keys, KeyEscape)
		case steersNothing(r) && r != utf8.RuneError && r != '\t':
			keys = append(keys, one)
		}
	}
	return keys
}
