package simtest

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"

	"github.com/trivet-ha/trivet/test/msgcheck"
)

// diaryLines is how many lines of the peers' logs are kept for a failure.
const diaryLines = 60

// diary keeps the newest lines that the peers of one simulation logged.
type diary struct {
	mu    sync.Mutex
	lines []string
	count int // of all lines
}

// Write implements io.Writer; slog's handlers write one line at a time.
func (j *diary) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.count++
	j.lines = append(j.lines, string(bytes.TrimSpace(b)))
	if len(j.lines) > diaryLines {
		j.lines = j.lines[1:]
	}
	return len(b), nil
}

// written counts the lines that were logged so far.
func (j *diary) written() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.count
}

func (j *diary) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "\n")
}

// logger returns the logger of one process: its lines go to the diary, and
// raft, which says what it is about to do before it does it, waits at the gate.
func (c *Cluster) logger(p *Peer, gate *Gate) *slog.Logger {
	return slog.New(gate.Handler(c.plainLogger(p).Handler()))
}

// plainLogger is a logger that never waits.
func (c *Cluster) plainLogger(p *Peer) *slog.Logger {
	out := msgcheck.Writer(&c.diary, func(wrong string) { c.T.Errorf("a log line of %s is wrong: %s", p.Name, wrong) })
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelInfo})).With("host", p.Name)
}
