package raftguard

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// bridge hands raft's records to slog, without a lock of its own. Raft's
// information is logged for debugging: the program reports elections in words of its own.
type bridge struct {
	hclog.Logger // a null logger, for the methods raft does not call
	to           *slog.Logger
	names        func() []string
}

// NewLogger returns a logger for raft, which may use it concurrently. Keys get the form that
// slog has, and servers their names. names returns
// server IDs, each followed by the name that stands for it in the log.
func NewLogger(to *slog.Logger, names func() []string) hclog.Logger {
	return bridge{hclog.NewNullLogger(), to, names}
}

func (b bridge) log(level slog.Level, msg string, args []any) {
	if b.to.Enabled(context.Background(), level) {
		b.to.Log(context.Background(), level, "raft: "+msg, b.translated(args)...)
	}
}

// translated gives raft's keys the form of ours, and peers their names. Of
// raft's own key "error" the text is kept, which may hold an ID, too.
func (b bridge) translated(args []any) []any {
	named := strings.NewReplacer(b.names()...)
	out := make([]any, 0, len(args))
	for n := 0; n+1 < len(args); n += 2 {
		key := fmt.Sprint(args[n])
		switch key {
		case "error":
			key = "err"
		case "server-id":
			key = "peer"
		case slog.TimeKey: // a duration; a record has a time already
			key = "silent_for"
		default:
			key = strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(key))
		}
		out = append(out, key, loggedValue(args[n+1], named))
	}
	return out
}

// loggedValue names the peers in what has a text; figures stay what they are.
func loggedValue(v any, named *strings.Replacer) any {
	switch v := v.(type) {
	case time.Duration:
		return v
	case raft.Server:
		return named.Replace(string(v.ID))
	case raft.ServerID:
		return named.Replace(string(v))
	case raft.ServerAddress:
		return named.Replace(string(v))
	case string:
		return named.Replace(v)
	case error:
		return named.Replace(v.Error())
	case fmt.Stringer:
		return named.Replace(v.String())
	}
	return v
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
