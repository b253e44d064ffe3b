package term

import (
	"fmt"
	"io"
	"time"
)

// transfer shows on a terminal how many bytes passed.
type transfer struct {
	io.Reader
	bar   *Progress
	what  string
	total int64 // 0: not known
	done  int64
}

// ShowBytes returns a reader of what r reads. While that is read, a line on standard error says on a
// terminal what is done, how many bytes of total, and how many in a second; elsewhere, and with --quiet,
// nothing is said. A total of 0 is not known. hide takes the line away.
func (t *Terminal) ShowBytes(what string, r io.Reader, total int64) (shown io.Reader, hide func()) {
	s := &transfer{Reader: r, bar: t.NewProgress(), what: what, total: total}
	return s, s.bar.Clear
}

// Read implements io.Reader.
func (s *transfer) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	s.done += int64(n)
	now := time.Now()
	if cols := s.bar.cols(); cols > 0 && !s.bar.quiet && !now.Before(s.bar.next) {
		s.bar.draw(s.text(now.Sub(s.bar.began)), cols)
	}
	return n, err
}

// text says how far it is after a time.
func (s *transfer) text(took time.Duration) string {
	text := s.what + " "
	if s.total > 0 {
		text += filledBar(int(min(s.done, s.total)*barWidth/s.total)) + " " + mebibytes(s.done) + " of " + mebibytes(s.total)
	} else {
		text += mebibytes(s.done)
	}
	if seconds := took.Seconds(); seconds > 0 {
		text += ", " + mebibytes(int64(float64(s.done)/seconds)) + "/s"
	}
	return text
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
