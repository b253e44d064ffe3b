package logs

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxLine bounds one line of a log, in bytes.
	maxLine = 16 << 10
	// lineCost is what a kept line costs besides its text, in bytes.
	lineCost = 160
)

// Line is one of a log, as it was written.
type Line struct {
	Time    time.Time
	Level   slog.Level
	Request Request // that it belongs to
	Text    string  // all of it, with its end of line
}

// Ring keeps the newest lines of a log in memory, so that operators read them also where the
// journal is lost. Its methods may be called concurrently.
type Ring struct {
	limit int    // bytes
	name  string // of this ring: another process has another one

	mu    sync.Mutex
	kept  []Line
	size  int    // of kept, in bytes
	older uint64 // lines that were dropped: the position of the first that is kept
}

// NewRing returns a Ring of at most limit bytes, which is more than one line has. Positions
// of rings with other names are not its own.
func NewRing(limit int, name string) *Ring { return &Ring{limit: limit, name: name} }

// Add keeps a line. One that is too long is cut.
func (r *Ring) Add(l Line) {
	if more := len(l.Text) - maxLine; more > 0 {
		l.Text = l.Text[:maxLine] + fmt.Sprintf("… (%d bytes more)\n", more)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = append(r.kept, l)
	r.size += len(l.Text) + lineCost
	for r.size > r.limit {
		r.size -= len(r.kept[0].Text) + lineCost
		r.kept[0] = Line{} // else the slice below holds it
		r.kept = r.kept[1:]
		r.older++
	}
}

// Text returns the lines, the oldest first, and says how many there were before.
func (r *Ring) Text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out strings.Builder
	fmt.Fprintf(&out, "# %d lines, after %d older ones that are not kept\n", len(r.kept), r.older)
	for _, l := range r.kept {
		out.WriteString(l.Text)
	}
	return out.String()
}

// Wanted chooses lines of a Ring.
type Wanted struct {
	// After is a position that Newest returned; "": the newest lines. Of one of another ring
	// the answer begins with the oldest line that is kept.
	After   string
	Request string     // ID of a request, or of the OpenStack operation that it is a part of; "": all
	Level   slog.Level // and above
	Most    int        // lines
	Bytes   int        // of their texts
}

func (w Wanted) takes(l Line) bool {
	return l.Level >= w.Level && (w.Request == "" || w.Request == l.Request.ID || w.Request == l.Request.Global)
}

// Newest returns lines, the oldest first, and the position behind them. Missed is how many
// lines after w.After were not kept: among them may be some that were wanted.
func (r *Ring) Newest(w Wanted) (lines []Line, last string, missed uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	end := r.older + uint64(len(r.kept))
	if w.After == "" {
		return r.before(end, w), r.position(end), 0
	}
	from := r.older
	name, at, _ := strings.Cut(w.After, "-")
	if n, err := strconv.ParseUint(at, 10, 64); err == nil && name == r.name && n <= end {
		from, missed = max(n, r.older), r.older-min(n, r.older)
	}
	bytes := 0
	for ; from < end && len(lines) < w.Most && bytes < w.Bytes; from++ {
		if l := r.kept[from-r.older]; w.takes(l) {
			lines, bytes = append(lines, l), bytes+len(l.Text)
		}
	}
	return lines, r.position(from), missed
}

// before are the newest lines before a position.
func (r *Ring) before(end uint64, w Wanted) []Line {
	var lines []Line
	bytes := 0
	for at := end; at > r.older && len(lines) < w.Most && bytes < w.Bytes; at-- {
		if l := r.kept[at-1-r.older]; w.takes(l) {
			lines, bytes = append(lines, l), bytes+len(l.Text)
		}
	}
	slices.Reverse(lines)
	return lines
}

func (r *Ring) position(n uint64) string { return r.name + "-" + strconv.FormatUint(n, 10) }

// LineOf is what a handler formatted of a record that was logged with ctx, by a logger that was made
// with the keys of a request, or of none.
func LineOf(ctx context.Context, made Request, r slog.Record, text []byte) Line {
	known := RequestOf(ctx)
	request := Request{cmp.Or(known.ID, made.ID), cmp.Or(known.Global, made.Global)}
	r.Attrs(func(a slog.Attr) bool {
		request = request.Or(a)
		return true
	})
	return Line{Time: r.Time, Level: r.Level, Request: request, Text: string(text)}
}

// Or takes over what these keys say of a request, where r does not.
func (r Request) Or(keys ...slog.Attr) Request {
	for _, a := range keys {
		switch a.Key {
		case requestID:
			r.ID = cmp.Or(r.ID, a.Value.String())
		case globalRequestID:
			r.Global = cmp.Or(r.Global, a.Value.String())
		}
	}
	return r
}
