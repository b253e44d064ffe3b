package leader

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// hangingDisk is a disk whose write began at a moment of the test's choosing.
type hangingDisk struct {
	mu    sync.Mutex
	began time.Time // of the write under way; zero: there is none
	leads bool
	mutes []bool
}

func (d *hangingDisk) Writing() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.began.IsZero() {
		return 0
	}
	return time.Since(d.began)
}

func (d *hangingDisk) Mute(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mutes = append(d.mutes, on)
	d.leads = d.leads && !on // raft steps down once its heartbeats are muted
}

func (d *hangingDisk) Role() (raftstore.Role, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return raftstore.Role{Leader: d.leads}, nil
}

func (d *hangingDisk) hang(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.began = time.Time{}
	if on {
		d.began = time.Now()
	}
}

// Values of docs/design.md#watchdog, for the judges of these tests: those of the code are
// what they judge.
const (
	hungAfter  = 2 * time.Second  // a probe was not committed
	stuckAfter = 15 * time.Second // a write did not return after the trip
	rests      = 30 * time.Second // a peer stands aside after its disk failed
)

// guarded runs a watchdog's guard over the disk of a leader.
type guarded struct {
	disk *hangingDisk

	mu    sync.Mutex
	hung  []bool
	exits []time.Duration // since the disk hung
}

// heard returns what fitness was told so far, exited when the process ended.
func (g *guarded) heard() []bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.hung)
}

func (g *guarded) exited() []time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.exits)
}

// note changes what was heard.
func (g *guarded) note(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

// underGuard runs f in a bubble with a guard under way.
func underGuard(t *testing.T, f func(g *guarded)) {
	synctest.Test(t, func(t *testing.T) {
		g := &guarded{disk: &hangingDisk{leads: true}}
		began := time.Now()
		w := NewWatchdog(g.disk, raftstore.Timing{Heartbeat: 500 * time.Millisecond},
			func(now bool) { g.note(func() { g.hung = append(g.hung, now) }) },
			func(code int, why error) {
				if code != ExitLostLeadership || !errors.Is(why, ErrHung) {
					t.Errorf("the process exits with %d: %v", code, why)
				}
				g.note(func() { g.exits = append(g.exits, time.Since(began)) })
			}, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { w.Guard(ctx) })
		f(g)
		synctest.Wait()
		stop()
		done.Wait()
	})
}

// A write that stays stuck ends the process StuckLimit after this peer was muted,
// and not before: a process in D state goes only when the disk thaws.
func TestStuckWriteEndsTheProcess(t *testing.T) {
	underGuard(t, func(g *guarded) {
		g.disk.hang(true)
		time.Sleep(hungAfter + stuckAfter - 100*time.Millisecond) // in a bubble
		synctest.Wait()
		if len(g.exited()) > 0 {
			t.Errorf("stuck-write-exits: after %v already", g.exited()[0])
		}
		time.Sleep(500 * time.Millisecond) // in a bubble
		synctest.Wait()
		if len(g.exited()) == 0 {
			t.Errorf("stuck-write-exits: not within %v", hungAfter+stuckAfter+400*time.Millisecond)
		}
	})
}

// A write that returns within StuckLimit mutes this peer for that long alone.
func TestThawedDiskEndsNoProcess(t *testing.T) {
	underGuard(t, func(g *guarded) {
		g.disk.hang(true)
		time.Sleep(stuckAfter) // in a bubble
		g.disk.hang(false)
		time.Sleep(2 * stuckAfter) // in a bubble
		synctest.Wait()
		if len(g.exited()) > 0 {
			t.Errorf("the process exited %v after its disk hung for %v", g.exited()[0], stuckAfter)
		}
		if want := []bool{true, false}; !slices.Equal(g.heard(), want) || !slices.Equal(g.disk.mutes, want) {
			t.Errorf("hung-is-reported: fitness heard %v, the transport %v, want %v", g.heard(), g.disk.mutes, want)
		}
	})
}

// probed is an authority whose probes end as the test says.
type probed struct {
	answer func(ctx context.Context) error
}

func (probed) Token() fencing.Token { return 1 }

func (p probed) Propose(ctx context.Context, _ fsm.Command) (fsm.Result, error) {
	return fsm.Result{}, p.answer(ctx)
}

func (probed) Confirm(context.Context, time.Time) error { return nil }

func (probed) Succeeds(uint64, uint64) (time.Time, bool) { return time.Time{}, false }

func (probed) Configured() uint64 { return 0 }

// The watchdog ends a leadership whose probes are not committed, within its limit,
// and mutes this peer only if its own write is what hangs: else the other peers
// would lose a leader that can hand leadership on.
func TestProbesThatAreNotCommittedEndTheLeadership(t *testing.T) {
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		answer func(ctx context.Context) error
		stuck  bool // this peer's own write
		ends   bool
	}{
		"committed":             {func(context.Context) error { return nil }, false, false},
		"refused in a transfer": {func(context.Context) error { return logerr.ErrNotLeader }, false, false},
		"waits for followers":   {hangs, false, true},
		"waits for its disk":    {hangs, true, true},
		"fails at once":         {func(context.Context) error { return errors.New("input/output error") }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := &hangingDisk{leads: true}
				w := NewWatchdog(disk, raftstore.Timing{Heartbeat: 500 * time.Millisecond}, func(bool) {}, func(int, error) {},
					slog.New(slog.DiscardHandler))
				var took []time.Duration
				w.Probed = func(d time.Duration) { took = append(took, d) }
				if w.Age() != 0 {
					t.Errorf("a peer that does not lead has a probe of age %v", w.Age())
				}
				disk.hang(c.stuck)
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				var guarding sync.WaitGroup
				guarding.Go(func() {
					for range 17 { // as the guard does; its own mute would come later
						w.countTicks()
						time.Sleep(100 * time.Millisecond) // in a bubble
					}
				})
				began := time.Now()
				err := w.Run(ctx, probed{c.answer})
				guarding.Wait()
				if lasted := time.Since(began); errors.Is(err, ErrHung) != c.ends ||
					c.ends && (lasted <= hungAfter || lasted > hungAfter+200*time.Millisecond) {
					t.Errorf("probes-end-leadership: %v after %v", err, lasted)
				}
				if muted := slices.Contains(disk.mutes, true); muted != c.stuck {
					t.Errorf("probes-end-leadership: this peer was muted: %t", muted)
				}
				if w.Age() != 0 {
					t.Errorf("after the leadership its probe has an age of %v", w.Age())
				}
				if !c.ends && c.answer(ctx) == nil && len(took) < 59 {
					t.Errorf("%d probes in a minute", len(took))
				}
			})
		})
	}
}

// What the log says of a trip makes sense: a disk that is not what hangs was stuck for no time.
func TestTripSaysWhatHangs(t *testing.T) {
	for stuck, want := range map[time.Duration]string{0: "no_write_for=3s\n",
		1900 * time.Millisecond: "no_write_for=3s stuck_for=1.9s\n"} {
		synctest.Test(t, func(t *testing.T) {
			var said strings.Builder
			w := NewWatchdog(&hangingDisk{leads: true}, raftstore.Normal(), func(bool) {}, func(int, error) {},
				slog.New(slog.NewTextHandler(&said, nil)))
			w.noteWrite(time.Now())
			time.Sleep(3 * time.Second) // in a bubble
			w.stuck = stuck
			w.trip()
			if text := said.String(); !strings.Contains(text, want) {
				t.Errorf("trip-says: stuck for %v: %q, want %q", stuck, text, want)
			}
		})
	}
}
