package logs

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"
)

// Every is the usual distance between two lines about a condition that lasts.
const Every = 10 * time.Minute

// maxConditions bounds the conditions that a limited logger tells apart. Past
// it, all further lines share one bound.
const maxConditions = 256

// Pace is how often a line may repeat. The zero value is not valid.
type Pace struct {
	// Every is the distance between the first line and the next. A condition
	// that was not logged for so long has ended; its next line is a first one.
	Every time.Duration
	// Most bounds the distance, which doubles with each line; equal to Every, it
	// stays as it is.
	Most time.Duration
	// Alike says that all lines of one level and message are about one condition: their
	// texts come from strangers, who would make conditions without end.
	Alike bool
}

// Limit returns a logger for warnings of a loop that tries again: the first
// line about a condition goes to next, then one each ten minutes, whose key
// "repeated" counts those that were left out. See LimitAt.
func Limit(next *slog.Logger) *slog.Logger { return LimitAt(next, Pace{Every: Every, Most: Every}) }

// LimitAt is Limit with another pace. Lines are about the same condition when
// level, message and all keys with text are equal, but for err and reason,
// which describe an attempt; numbers, durations and times are measurements and
// do not count either. The clock is that of the records. Of nil it returns nil.
func LimitAt(next *slog.Logger, pace Pace) *slog.Logger {
	if next == nil {
		return nil
	}
	return slog.New(limited{next: next.Handler(), to: &limiter{pace: pace, conditions: make(map[string]*condition)}})
}

// limiter is the memory that a limited logger shares with those made of it.
type limiter struct {
	pace Pace

	mu         sync.Mutex
	conditions map[string]*condition
}

// condition is what is known of lines that repeat.
type condition struct {
	seen, next time.Time
	wait       time.Duration
	left       int // lines that were left out since the last one
}

// admit says whether a line at now may pass, and how many were left out before it.
func (l *limiter) admit(key string, now time.Time) (left int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.conditions[key]
	if c == nil && len(l.conditions) >= maxConditions {
		// they have ended
		maps.DeleteFunc(l.conditions, func(_ string, c *condition) bool { return now.Sub(c.seen) >= l.pace.Every })
		if len(l.conditions) >= maxConditions {
			key = ""
			c = l.conditions[key]
		}
	}
	if c == nil || now.Sub(c.seen) >= l.pace.Every {
		l.conditions[key] = &condition{seen: now, next: now.Add(l.pace.Every), wait: l.pace.Every}
		return 0, true
	}
	c.seen = now
	if now.Before(c.next) {
		c.left++
		return 0, false
	}
	c.wait = min(2*c.wait, l.pace.Most)
	c.next = now.Add(c.wait)
	left, c.left = c.left, 0
	return left, true
}

// limited is the handler of a limited logger. It holds no lock while it calls
// the next one, which may block.
type limited struct {
	next  slog.Handler
	about string // of the keys that the logger was made with
	to    *limiter
}

// Enabled implements slog.Handler.
func (h limited) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h limited) Handle(ctx context.Context, r slog.Record) error {
	var key strings.Builder
	key.WriteString(r.Level.String() + " " + r.Message + h.about)
	r.Attrs(func(a slog.Attr) bool {
		if !h.to.pace.Alike {
			key.WriteString(identity(a))
		}
		return !h.to.pace.Alike
	})
	left, ok := h.to.admit(key.String(), r.Time)
	if !ok {
		return nil
	}
	if left > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("repeated", left))
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h limited) WithAttrs(as []slog.Attr) slog.Handler {
	for _, a := range as {
		h.about += identity(a)
	}
	h.next = h.next.WithAttrs(as)
	return h
}

// WithGroup implements slog.Handler.
func (h limited) WithGroup(name string) slog.Handler {
	h.next = h.next.WithGroup(name)
	return h
}

// identity is what a key adds to the name of a condition; nothing for a
// measurement.
func identity(a slog.Attr) string {
	v := a.Value.Resolve()
	switch {
	case a.Key == "err", a.Key == "reason":
		return ""
	case v.Kind() == slog.KindString, v.Kind() == slog.KindAny:
		return " " + a.Key + "=" + v.String()
	}
	return ""
}
