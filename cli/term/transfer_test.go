package term

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// paced gives a mebibyte in each half second.
type paced struct{ left int }

func (p *paced) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(time.Second / 2) // in a bubble
	p.left--
	return min(len(b), 1<<20), nil
}

func TestBytesAreShownOnATerminalAlone(t *testing.T) {
	for name, c := range map[string]struct {
		cols  int
		quiet bool
		total int64
		want  string
	}{
		"terminal": {80, false, 4 << 20, "save [===============     ] 3.0 MiB of 4.0 MiB, 2.0 MiB/s"},
		"longer":   {80, false, 2 << 20, "save [====================] 3.0 MiB of 2.0 MiB, 2.0 MiB/s"}, // it grew
		"unknown":  {80, false, 0, "save 3.0 MiB, 2.0 MiB/s"},
		"narrow":   {20, false, 0, "save 3.0 MiB, 2.0 …"},
		"file":     {0, false, 4 << 20, ""},
		"quiet":    {80, true, 4 << 20, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			s := &transfer{Reader: &paced{left: 4}, what: "save", total: c.total,
				bar: &Progress{w: &out, cols: func() int { return c.cols }, quiet: c.quiet, began: time.Now()}}
			if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{s},
				make([]byte, 1<<20)); n != 4<<20 || err != nil {
				t.Fatal(n, err)
			}
			s.bar.Clear()
			drawn := strings.Split(out.String(), redraw)
			if c.want == "" && out.Len() == 0 {
				return
			}
			if len(drawn) != 1+4+1 || drawn[3] != c.want || drawn[len(drawn)-1] != "" {
				t.Errorf("bytes-on-a-terminal: %s: %q", name, drawn)
			}
		})
	}
}
