package health

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/internal/logs"
)

// noReader is a stream whose reader is gone.
type noReader struct{}

func (noReader) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestLogThatNobodyReadsIsTold(t *testing.T) {
	if logWarnings(nil) != nil {
		t.Error("a peer that knows nothing of its log warns of it")
	}
	stream := logs.NewQueue(noReader{}, func(uint64) []byte { return nil })
	if w := logWarnings(stream); w != nil {
		t.Errorf("log-unread-is-told: before the first line: %v", w)
	}
	stream.Add([]byte("a\n"))
	stream.Flush(time.Minute)
	if w := logWarnings(stream); len(w) != 1 || !degrades(w[0].Code) || w[0].Remedy == "" ||
		!strings.Contains(w[0].Text, "broken pipe; lines lost: 1") {
		t.Errorf("log-unread-is-told: %+v", w)
	}
}
