package simtest

import (
	"context"
	"log/slog"
	"sync"
)

// Gate is SIGSTOP for one simulated process. A goroutine that acts on behalf
// of the process calls Wait first; while the gate is paused it stays there. A
// nil Gate is always open. All methods may be called concurrently.
//
// Timers cannot be stopped from outside, so a goroutine that only reads the
// clock runs on; what it decides stays inside the process as long as every act
// (sending, writing, logging) passes the gate. Isolation is not a pause: an
// isolated process notices and reacts, a paused one wakes up believing that no
// time has passed.
type Gate struct {
	mu      sync.Mutex
	stopped chan struct{} // nil while open; closed by Resume
	killed  bool
}

// NewGate returns an open gate. Make it inside the bubble that uses it.
func NewGate() *Gate { return &Gate{} }

// Pause stops the process. Pausing a paused gate changes nothing.
func (g *Gate) Pause() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped == nil {
		g.stopped = make(chan struct{})
	}
}

// Resume lets all waiters go, in no particular order.
func (g *Gate) Resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped != nil {
		close(g.stopped)
		g.stopped = nil
	}
}

// Kill notes that the process is gone: what its goroutines still do before they end
// must not reach anything that outlives it. Wait lets them pass.
func (g *Gate) Kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.killed = true
}

// Killed reports whether the process was killed.
func (g *Gate) Killed() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.killed
}

// Paused reports whether the process is stopped.
func (g *Gate) Paused() bool { return g.Stopped() != nil }

// Wait returns true once the process runs, or false if done was closed before
// that. A nil done waits as long as it takes.
func (g *Gate) Wait(done <-chan struct{}) bool {
	for {
		stopped := g.Stopped()
		if stopped == nil {
			return true
		}
		select {
		case <-stopped:
		case <-done:
			return false
		}
	}
}

// Stopped returns nil while the process runs, else a channel that is closed when it goes on.
func (g *Gate) Stopped() <-chan struct{} {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stopped
}

// Handler returns a slog.Handler that waits at the gate before it passes a
// record on. It is how a pause reaches the inside of a library: raft says in
// its log that it steps down, or stands for election, before it does.
//
// Whoever calls it must not hold a mutex, because a goroutine that waits for a
// mutex stops the bubble's clock: a plain hclog logger (and hclog's intercept
// logger, which calls its sinks under a lock) must not stand between raft and
// this handler.
func (g *Gate) Handler(next slog.Handler) slog.Handler {
	return gatedHandler{gate: g, next: next}
}

type gatedHandler struct {
	gate *Gate
	next slog.Handler
}

// Enabled implements slog.Handler; it waits too, since a record below the
// level is a sign of life like any other.
func (h gatedHandler) Enabled(ctx context.Context, level slog.Level) bool {
	h.gate.Wait(nil)
	return h.next.Enabled(ctx, level)
}

func (h gatedHandler) Handle(ctx context.Context, r slog.Record) error {
	h.gate.Wait(nil)
	return h.next.Handle(ctx, r)
}

func (h gatedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return gatedHandler{gate: h.gate, next: h.next.WithAttrs(attrs)}
}

func (h gatedHandler) WithGroup(name string) slog.Handler {
	return gatedHandler{gate: h.gate, next: h.next.WithGroup(name)}
}
