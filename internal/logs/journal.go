package logs

import (
	"fmt"
	"log/slog"
	"os"
	"syscall"
)

// InJournal reports whether f is the stream of systemd's journal that the variable
// JOURNAL_STREAM names as DEVICE:INODE. The variable alone proves nothing: children
// inherit it, with any standard error.
func InJournal(f *os.File, stream string) bool {
	if f == nil || stream == "" {
		return false
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stream == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}

// Priority returns what precedes a line of this level on its way to the
// journal, which takes it off: sd-daemon(3).
func Priority(level slog.Level) string {
	switch {
	case level >= slog.LevelError:
		return "<3>"
	case level >= slog.LevelWarn:
		return "<4>"
	case level >= slog.LevelInfo:
		return "<6>"
	default:
		return "<7>"
	}
}
