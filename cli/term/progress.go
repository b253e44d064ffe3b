package term

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	drawEvery = 200 * time.Millisecond // a bar, on a terminal
	lineEvery = 5 * time.Second        // lines, elsewhere: a log is read later
	barWidth  = 20                     // columns
	usualCols = 80                     // of a terminal that does not say
)

// Progress tells on standard error how far a command is: a bar that is drawn
// over itself on a terminal, now and then a line elsewhere, nothing with
// --quiet. It belongs to one goroutine, which calls Show as often as it likes.
type Progress struct {
	w     io.Writer
	cols  func() int // of the terminal now; 0: it is none
	quiet bool
	began time.Time
	next  time.Time // nothing is written before
	line  string    // the last plain line, without its time
	drawn bool      // a bar stands on the terminal
}

// NewProgress tells how far the command is that has begun now.
func (t *Terminal) NewProgress() *Progress {
	cols := func() int { return Columns(t.Err) }
	if t.Variable("TERM", "dumb") == "dumb" {
		cols = func() int { return 0 }
	}
	return &Progress{w: t.Err, cols: cols, quiet: t.Quiet, began: time.Now()}
}

// Columns returns the width of the terminal that w is, and 0 if it is none.
func Columns(w io.Writer) int {
	f := fileOf(w)
	if f == nil {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0 // that is how a file or pipe answers
	}
	if size.Col == 0 {
		return usualCols
	}
	return int(size.Col)
}

// ShowProgress shows what look says until the returned function is called.
func (t *Terminal) ShowProgress(look func() (done, total int, detail string)) (hide func()) {
	end := make(chan struct{}) // closed by hide
	var showing sync.WaitGroup
	showing.Go(func() {
		g := t.NewProgress()
		defer g.Clear()
		tick := time.NewTicker(drawEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				g.Show(look())
			case <-end:
				return
			}
		}
	})
	return func() { close(end); showing.Wait() }
}

// Show says that done of total are done; detail says where all of them stand.
func (g *Progress) Show(done, total int, detail string) {
	now := time.Now()
	if g.quiet || now.Before(g.next) {
		return
	}
	took := now.Sub(g.began).Round(time.Second)
	if cols := g.cols(); cols > 0 {
		g.draw(bar(done, total)+"  "+detail+"  "+took.String(), cols)
		return
	}
	if line := fmt.Sprintf("%d of %d done: %s", done, total, detail); line != g.line {
		g.next, g.line = now.Add(lineEvery), line
		fmt.Fprintf(g.w, "trivet: %s (%v)\n", line, took)
	}
}

// draw draws a line over the one before.
func (g *Progress) draw(text string, cols int) {
	g.next, g.drawn = time.Now().Add(drawEvery), true
	fmt.Fprint(g.w, redraw, Clipped(text, cols-1))
}

// Clear takes the bar away, so that other lines can follow.
func (g *Progress) Clear() {
	if g.drawn {
		fmt.Fprint(g.w, redraw)
		g.drawn = false
	}
}

func bar(done, total int) string {
	full := barWidth
	if total > 0 {
		full = barWidth * done / total
	}
	return fmt.Sprintf("%s %d/%d", filledBar(full), done, total)
}

func filledBar(full int) string {
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", barWidth-full) + "]"
}

// Clipped cuts text to a number of columns: a bar that wraps cannot be drawn over.
func Clipped(text string, cols int) string {
	r := []rune(text)
	if len(r) <= cols {
		return text
	}
	return string(r[:max(cols-1, 0)]) + "…"
}
