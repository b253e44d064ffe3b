// Package msgcheck finds messages that were put together wrongly: a verb of
// package fmt with a missing, nil or surplus argument, or a log attribute without
// a key. go vet sees the types of arguments, not that an error is nil.
package msgcheck

import (
	"io"
	"log/slog"
	"regexp"
	"sync"
	"testing"
)

// most bounds how much of earlier output is looked at together with the next.
const most = 256

// pattern is what fmt, and slog, write in the place of what is wrong.
const pattern = `%!.?\(.{0,40}|!BADKEY.{0,40}`

// Wrong returns the first wrong part of a message, "" if there is none.
func Wrong(message string) string { return regexp.MustCompile(pattern).FindString(message) }

// Writer returns a writer that hands everything on to w and calls found, once,
// with what is wrong in it. It may be used concurrently.
func Writer(w io.Writer, found func(wrong string)) io.Writer {
	return &writer{w: w, found: found, pattern: regexp.MustCompile(pattern)}
}

type writer struct {
	w       io.Writer
	pattern *regexp.Regexp

	mu    sync.Mutex
	found func(string) // nil: it was called
	tail  []byte
}

// Write implements io.Writer.
func (c *writer) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.w.Write(b)
	c.tail = append(c.tail, b...)
	if wrong := c.pattern.Find(c.tail); wrong != nil && c.found != nil {
		c.found(string(wrong))
		c.found = nil
	}
	c.tail = c.tail[max(0, len(c.tail)-most):]
	return n, err
}

// Logger returns a logger that prints nothing and fails the test for a line that
// is wrong, at any level.
func Logger(t testing.TB) *slog.Logger {
	w := Writer(io.Discard, func(wrong string) { t.Errorf("a log line is wrong: %s", wrong) })
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
