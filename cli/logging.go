package cli

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/bundle"
	"github.com/trivet-ha/trivet/config"
)

// journal is the log of a daemon. How much it says, and in which form, may
// change while it is written; all loggers that were made of it follow.
type journal struct {
	level  slog.LevelVar
	json   atomic.Bool
	logger *slog.Logger
	recent *bundle.Lines // the newest lines, for a bundle
}

func newJournal(w io.Writer, c config.Log) *journal {
	j := &journal{recent: bundle.NewLines(app.BundledLog)}
	o, out := &slog.HandlerOptions{Level: &j.level}, &lines{w: io.MultiWriter(j.recent, w)} // kept also where nobody takes them
	j.logger = slog.New(either{slog.NewTextHandler(out, o), slog.NewJSONHandler(out, o), &j.json})
	j.set(c)
	return j
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

// either writes text or JSON.
type either struct {
	text, json slog.Handler
	asJSON     *atomic.Bool
}

// Enabled implements slog.Handler.
func (e either) Enabled(ctx context.Context, l slog.Level) bool { return e.text.Enabled(ctx, l) }

// Handle implements slog.Handler.
func (e either) Handle(ctx context.Context, r slog.Record) error {
	if e.asJSON.Load() {
		return e.json.Handle(ctx, r)
	}
	return e.text.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (e either) WithAttrs(as []slog.Attr) slog.Handler {
	return either{e.text.WithAttrs(as), e.json.WithAttrs(as), e.asJSON}
}

// WithGroup implements slog.Handler.
func (e either) WithGroup(name string) slog.Handler {
	return either{e.text.WithGroup(name), e.json.WithGroup(name), e.asJSON}
}

// lines lets one line out at a time: each handler has a lock of its own, and
// around a change of the form both may write.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(line)
}
