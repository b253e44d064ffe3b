package supportbundle

import (
	"fmt"
	"strings"
	"sync"
)

// maxLine bounds one line of a log, in bytes.
const maxLine = 16 << 10

// Lines keeps the newest lines of a log in memory, so that a bundle has them also
// if the journal is lost. Its methods may be called concurrently.
type Lines struct {
	limit int // bytes

	mu    sync.Mutex
	kept  []string
	size  int // of kept, in bytes
	older int // lines that were dropped
}

// NewLines returns Lines of at most limit bytes, which is more than one line has.
func NewLines(limit int) *Lines { return &Lines{limit: limit} }

// Write implements io.Writer for one line; it never fails. A line that is too
// long is cut.
func (l *Lines) Write(line []byte) (int, error) {
	text := string(line)
	if len(text) > maxLine {
		text = text[:maxLine] + fmt.Sprintf("… (%d bytes more)\n", len(text)-maxLine)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, text)
	l.size += len(text)
	for l.size > l.limit {
		l.size -= len(l.kept[0])
		l.kept[0] = "" // else the slice below holds it
		l.kept = l.kept[1:]
		l.older++
	}
	return len(line), nil
}

// Text returns the lines, the oldest first, and says how many there were before.
func (l *Lines) Text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("# %d lines, after %d older ones that are not kept\n", len(l.kept), l.older) +
		strings.Join(l.kept, "")
}
