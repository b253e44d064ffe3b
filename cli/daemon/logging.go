package daemon

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/internal/logs"
)

// journal is the log of a daemon. How much it says, and in which form, may
// change while it is written; all loggers that were made of it follow.
type journal struct {
	level  slog.LevelVar
	json   atomic.Bool
	logger *slog.Logger
	recent *logs.Ring  // the newest lines, for operators; nil: they are not kept
	queue  *logs.Queue // to the stream, whose reader may have stopped

	mu      sync.Mutex
	line    bytes.Buffer // the line that is being formatted
	systemd bool         // the stream is systemd's journal, which has times of its own and reads priorities
}

func newJournal(w io.Writer, c config.Log) *journal {
	j := new(journal)
	if t, ok := w.(journalTalk); ok {
		w, j.systemd = t.journal, true
	}
	j.queue = logs.NewQueue(w, j.lost)
	o := &slog.HandlerOptions{Level: &j.level}
	form := either{text: slog.NewTextHandler(&j.line, o), json: slog.NewJSONHandler(&j.line, o), to: j}
	j.logger = slog.New(logs.Requests(form))
	j.set(c)
	if term.OffScreen(w) == os.Stderr {
		// What libraries log by themselves, client-go by klog and net/http by log, takes the queue: they write to
		// standard error, under locks of their own, and would wait for its reader.
		limited := logs.Limit(j.logger)
		klog.SetSlogLogger(limited)
		slog.SetDefault(limited) // and that of log
	}
	return j
}

// keepLines has the newest lines kept for operators.
func (j *journal) keepLines(random io.Reader) error {
	name := make([]byte, 8) // no other process has it
	if _, err := io.ReadFull(random, name); err != nil {
		return fmt.Errorf("name the lines of this process's log: %w", err)
	}
	j.recent = logs.NewRing(app.KeptLog, hex.EncodeToString(name))
	return nil
}

// set changes how the log is written, from the next line on. The values were
// checked with the configuration.
func (j *journal) set(c config.Log) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err == nil {
		j.level.Set(level)
	}
	j.json.Store(c.Format == config.LogJSON)
}

// write formats a record with h, which writes to j.line, and passes the line
// on. The line reaches operators even where the stream takes none.
func (j *journal) write(ctx context.Context, made logs.Request, r slog.Record, h slog.Handler) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.line.Reset()
	if err := h.Handle(ctx, r); err != nil {
		return err
	}
	line := j.line.Bytes()
	if j.recent != nil {
		j.recent.Add(logs.LineOf(ctx, made, r, line))
	}
	j.queue.Add(j.framed(r.Level, line))
	return nil
}

// framed is a line as the stream wants it.
func (j *journal) framed(level slog.Level, line []byte) []byte {
	if !j.systemd {
		return line
	}
	if bytes.HasPrefix(line, []byte(slog.TimeKey+"=")) { // an object of JSON keeps its time
		_, line, _ = bytes.Cut(line, []byte(" "))
	}
	return append([]byte(logs.Priority(level)), line...)
}

// lost is the line in the place of those that the stream did not take.
func (j *journal) lost(lines uint64) []byte {
	var line bytes.Buffer
	var form slog.Handler = slog.NewTextHandler(&line, nil)
	if j.json.Load() {
		form = slog.NewJSONHandler(&line, nil)
	}
	slog.New(form).Warn("write log failed, lines lost", "lines", lines)
	return j.framed(slog.LevelWarn, line.Bytes())
}

// lastWords bounds how long the end of a process waits for the stream to take what was said.
const lastWords = time.Second

// flush waits for the stream, at the end.
func (j *journal) flush() { j.queue.Flush(lastWords) }

// talkOn returns what takes the place of w, which the journal was made for: what is said comes
// behind the lines that were logged before, and waits no longer than lastWords.
func (j *journal) talkOn(w io.Writer) io.Writer {
	if t, ok := w.(journalTalk); ok {
		return journalTalk{j.talkOn(t.journal)}
	}
	return talk{w, j}
}

// talk is what a daemon says. It writes where w would, through the queue.
type talk struct {
	w    io.Writer
	last *journal
}

// Write implements io.Writer. It never fails: the journal knows what is wrong with the stream.
func (t talk) Write(text []byte) (int, error) {
	t.last.queue.Add(text)
	t.last.flush()
	return len(text), nil
}

// Behind is for term, which asks whether this is a terminal.
func (t talk) Behind() io.Writer { return t.w }

// either formats text or JSON, as the journal says.
type either struct {
	text, json slog.Handler
	to         *journal
	made       logs.Request // with whose keys the logger was made
	grouped    bool         // further keys are a group's
}

// Enabled implements slog.Handler.
func (e either) Enabled(ctx context.Context, l slog.Level) bool { return e.text.Enabled(ctx, l) }

// Handle implements slog.Handler.
func (e either) Handle(ctx context.Context, r slog.Record) error {
	if e.to.json.Load() {
		return e.to.write(ctx, e.made, r, e.json)
	}
	return e.to.write(ctx, e.made, r, e.text)
}

// WithAttrs implements slog.Handler.
func (e either) WithAttrs(as []slog.Attr) slog.Handler {
	made := e.made
	if !e.grouped {
		made = made.Or(as...)
	}
	return either{e.text.WithAttrs(as), e.json.WithAttrs(as), e.to, made, e.grouped}
}

// WithGroup implements slog.Handler.
func (e either) WithGroup(name string) slog.Handler {
	return either{e.text.WithGroup(name), e.json.WithGroup(name), e.to, e.made, e.grouped || name != ""}
}

// journalTalk is the standard error of a command whose output systemd takes: it
// gives errors and warnings their priorities.
type journalTalk struct{ journal io.Writer }

// TalkOn returns w, or the journal if w is its stream. stream is the value of
// JOURNAL_STREAM.
func TalkOn(w io.Writer, stream string) io.Writer {
	if f, ok := w.(*os.File); ok && logs.InJournal(f, stream) {
		return journalTalk{f}
	}
	return w
}

// Write implements io.Writer, for whole lines.
func (t journalTalk) Write(text []byte) (int, error) {
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, term.TalkError), strings.HasPrefix(line, term.TalkHint):
			out.WriteString(logs.Priority(slog.LevelError))
		case strings.HasPrefix(line, term.TalkWarning):
			out.WriteString(logs.Priority(slog.LevelWarn))
		}
		out.WriteString(line)
	}
	if _, err := io.WriteString(t.journal, out.String()); err != nil {
		return 0, err
	}
	return len(text), nil
}

// NewLog is the log of a command that runs for long and has no configuration. Its end calls flush.
func NewLog(t *term.Terminal) (log *slog.Logger, flush func()) {
	term.OutliveReaders()
	j := newJournal(t.Err, config.Default().Log)
	t.Err = j.talkOn(t.Err)
	return j.logger, j.flush
}
