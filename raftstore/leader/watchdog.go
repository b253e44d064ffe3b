package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// Rules of the disk watchdog (docs/design.md#watchdog).
const (
	probeEvery = time.Second
	watchEvery = 100 * time.Millisecond
	// StuckLimit is how long after a trip one write may stay stuck before the
	// process exits; in D state it goes only when the disk thaws.
	StuckLimit = 15 * time.Second
)

// ErrHung says that the log has taken no write for too long.
var ErrHung = errors.New("the log takes no writes")

// Disk is what the watchdog sees and does below raft, which itself never
// notices a hung disk: heartbeats do not touch it.
type Disk interface {
	Writing() time.Duration
	Mute(on bool)
	Role() (raftstore.Role, <-chan struct{})
}

// Watchdog has two halves. As a duty it commits a probe every second and ends
// the leadership when none was committed for the limit, so that PXE closes. As
// a guard, at all times, it mutes this peer while its own disk is what hangs:
// also a leader that is establishing, or giving up, keeps the others from
// electing as long as its heartbeats go out.
type Watchdog struct {
	// Probed, if set before Run, is told how long each probe took to be committed
	// and applied, or was waited for in vain. It must not block.
	Probed func(took time.Duration)

	disk  Disk
	limit time.Duration
	hung  func(now bool) // tells Fitness
	exit  func(code int, why error)
	log   *slog.Logger

	mu        sync.Mutex
	committed time.Time     // of the newest probe; zero while not leading
	muted     time.Time     // since when; zero while not
	stuck     time.Duration // of the write under way, as far as this process ran meanwhile
}

// HungAfter is how long a leader waits for its own writes before it gives up, with these
// election clocks.
func HungAfter(t raftstore.Timing) time.Duration { return max(2*time.Second, 4*t.Heartbeat) }

// NewWatchdog returns the watchdog for these election clocks.
func NewWatchdog(disk Disk, t raftstore.Timing, hung func(now bool), exit func(int, error),
	log *slog.Logger) *Watchdog {
	return &Watchdog{disk: disk, limit: HungAfter(t), hung: hung, exit: exit, log: log}
}

// Name implements Duty.
func (w *Watchdog) Name() string { return "disk-watchdog" }

// Age returns how old the newest committed probe is; zero on a peer that does
// not lead. systemd's watchdog asks a leader for it.
func (w *Watchdog) Age() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.committed.IsZero() {
		return 0
	}
	return time.Since(w.committed)
}

// Limit returns the age at which the watchdog trips.
func (w *Watchdog) Limit() time.Duration { return w.limit }

func (w *Watchdog) noteWrite(t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.committed = t
}

// Run implements Duty.
func (w *Watchdog) Run(ctx context.Context, a Authority) error {
	w.noteWrite(time.Now())
	defer w.noteWrite(time.Time{})
	probes, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.probe(probes, a)
	}()
	defer func() { stop(); <-done }()

	for range pace.After(ctx, watchEvery) {
		if age := w.Age(); age > w.limit {
			w.trip()
			return fmt.Errorf("%w: no probe committed for %v", ErrHung, age.Round(time.Millisecond))
		}
	}
	return nil
}

// probe commits one probe a second, under a deadline of its own.
func (w *Watchdog) probe(ctx context.Context, a Authority) {
	for range pace.Every(ctx, probeEvery) {
		limited, cancel := context.WithTimeout(ctx, w.limit)
		began := time.Now()
		_, err := a.Propose(limited, fsm.Probe{})
		cancel()
		// Refused, not hung: a transfer is running and raft's loop is alive.
		if err == nil || errors.Is(err, logerr.ErrNotLeader) {
			w.noteWrite(time.Now())
		}
		if w.Probed != nil && ctx.Err() == nil && !errors.Is(err, logerr.ErrNotLeader) {
			w.Probed(time.Since(began))
		}
	}
}

// trip mutes this peer at once if its own disk is what hangs. Else the write
// waits for followers and the runner hands leadership on. A write that hangs
// began with a probe at the latest, up to probeEvery after the newest committed
// one; so that much less than the limit already convicts it.
func (w *Watchdog) trip() {
	w.mu.Lock()
	stuck := w.stuck
	w.mu.Unlock()
	said := []any{"limit", w.limit, "no_write_for", w.Age().Round(time.Millisecond)}
	if stuck > 0 { // else this peer's disk is not what hangs
		said = append(said, "stuck_for", stuck)
	}
	w.log.Error("disk watchdog tripped", said...)
	if stuck > w.limit-probeEvery-2*watchEvery {
		w.mute(true)
	}
}

func (w *Watchdog) mute(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if on == !w.muted.IsZero() {
		return
	}
	w.muted = time.Time{}
	if on {
		w.muted = time.Now()
	}
	w.hung(on)
	w.disk.Mute(on)
}

// countTicks counts the ticks of the guard that one write has been under way for. A
// process that was stopped for a minute finds the write a minute old, and its
// disk is as good as ever.
func (w *Watchdog) countTicks() time.Duration {
	writing := w.disk.Writing()
	w.mu.Lock()
	defer w.mu.Unlock()
	if writing < watchEvery {
		w.stuck = 0
	} else {
		w.stuck += watchEvery
	}
	return w.stuck
}

// Guard watches this peer's own disk until ctx ends.
func (w *Watchdog) Guard(ctx context.Context) {
	for range pace.Every(ctx, watchEvery) {
		w.guard()
	}
}

// guard mutes a leader whose write hangs; it lets the transport speak again
// once the write has returned and raft no longer believes that it leads, and
// exits the process if the write stays stuck.
func (w *Watchdog) guard() {
	role, _ := w.disk.Role()
	stuck, muted := w.countTicks(), time.Duration(0)
	w.mu.Lock()
	if !w.muted.IsZero() {
		muted = time.Since(w.muted)
	}
	w.mu.Unlock()
	switch {
	case role.Leader && stuck > w.limit:
		w.mute(true)
	case muted > 0 && stuck == 0 && !role.Leader:
		w.mute(false)
	}
	if muted > StuckLimit && stuck > StuckLimit {
		w.exit(ExitLostLeadership, fmt.Errorf("%w: one write has been under way for %v", ErrHung, stuck))
	}
}
