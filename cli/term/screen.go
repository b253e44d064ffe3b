package term

import (
	"bytes"
	"io"
	"os"
	"slices"
	"sync"
	"unicode/utf8"
)

// screen is a terminal that shows what is written to it and obeys nothing in it but what
// this package writes: every text that comes from a machine, a peer or a file passes here,
// whichever verb prints it. A character that steers is written as JSON escapes it, so that
// a document is one still. A file and a pipe get the bytes as they are.
type screen struct {
	*os.File
	out io.Writer // File, but in tests

	mu   sync.Mutex
	rest []byte // of a character or sequence whose end is still to come
}

// OnScreen returns w, or, where w is a terminal, what shields it.
func OnScreen(w io.Writer) io.Writer {
	if !IsTerminal(w) {
		return w
	}
	f := w.(*os.File)
	return &screen{File: f, out: f}
}

// OffScreen returns what OnScreen was given: a program that is run under this one has the
// terminal for itself.
func OffScreen(w io.Writer) io.Writer {
	if s, ok := w.(*screen); ok {
		return s.File
	}
	return w
}

// fileOf returns the file that is written to, nil if there is none.
func fileOf(w any) *os.File {
	switch w := w.(type) {
	case *os.File:
		return w
	case *screen:
		return w.File
	case interface{ Behind() io.Writer }: // what a daemon says passes a queue
		return fileOf(w.Behind())
	}
	return nil
}

// redraw clears the line of a bar.
const redraw = "\r\x1b[K"

// Write implements io.Writer.
func (s *screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := []string{sgrBold, sgrRed, sgrYellow, sgrInverse, sgrReset, redraw} // each is written as a whole
	left, shown := append(s.rest, text...), []byte(nil)
	for len(left) > 0 && utf8.FullRune(left) {
		at := slices.IndexFunc(own, func(sequence string) bool { return bytes.HasPrefix(left, []byte(sequence)) })
		r, size := utf8.DecodeRune(left)
		switch {
		case at >= 0:
			shown, size = append(shown, own[at]...), len(own[at])
		case r == '\r': // in a document it can only be space
			shown = append(shown, ' ')
		default:
			shown = append(shown, Escaped(left[:size])...)
		}
		left = left[size:]
	}
	s.rest = bytes.Clone(left)
	if _, err := s.out.Write(shown); err != nil {
		return 0, err
	}
	return len(text), nil
}

// ReadFrom hides that of the file, which would pass Write by.
func (s *screen) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{s}, r)
}

// WriteString hides that of the file.
func (s *screen) WriteString(text string) (int, error) { return s.Write([]byte(text)) }
