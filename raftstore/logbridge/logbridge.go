// Package logbridge lets raft log through slog.
package logbridge

import (
	"context"
	"log/slog"
	"slices"

	"github.com/hashicorp/go-hclog"
)

// bridge hands raft's records to slog, without a lock of its own. Raft's
// information is our debugging: an operator reads of elections in Trivet's own
// words.
type bridge struct {
	hclog.Logger // a null logger, for the methods raft does not call
	to           *slog.Logger
}

// New returns a logger for raft, which may use it concurrently.
func New(to *slog.Logger) hclog.Logger { return bridge{hclog.NewNullLogger(), to} }

func (b bridge) log(level slog.Level, msg string, args []any) {
	if b.to.Enabled(context.Background(), level) {
		b.to.Log(context.Background(), level, "raft: "+msg, renamed(args)...)
	}
}

// renamed gives raft's "time", a duration, another name: a record has a time
// already, and JSON must not have a key twice.
func renamed(args []any) []any {
	out := slices.Clone(args)
	for n := 0; n+1 < len(out); n += 2 {
		if out[n] == slog.TimeKey {
			out[n] = "lasted"
		}
	}
	return out
}

// Debug implements hclog.Logger.
func (b bridge) Debug(msg string, args ...any) { b.log(slog.LevelDebug, msg, args) }

// Info implements hclog.Logger.
func (b bridge) Info(msg string, args ...any) { b.log(slog.LevelDebug, msg, args) }

// Warn implements hclog.Logger. An election warns several times; the runner
// says once what came of it.
func (b bridge) Warn(msg string, args ...any) { b.log(slog.LevelInfo, msg, args) }

// Error implements hclog.Logger.
func (b bridge) Error(msg string, args ...any) { b.log(slog.LevelWarn, msg, args) }
