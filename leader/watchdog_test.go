package leader

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/raftstore"
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

// guarded runs a watchdog's guard over the disk of a leader.
type guarded struct {
	disk  *hangingDisk
	limit time.Duration
	hung  []bool
	exits []time.Duration // since the disk hung
}

// underGuard runs f in a bubble with a guard under way.
func underGuard(t *testing.T, f func(g *guarded)) {
	synctest.Test(t, func(t *testing.T) {
		g := &guarded{disk: &hangingDisk{leads: true}}
		began := time.Now()
		w := NewWatchdog(g.disk, raftstore.Timing{Heartbeat: 500 * time.Millisecond},
			func(now bool) { g.hung = append(g.hung, now) },
			func(code int, why error) {
				if code != ExitLostLeadership || !errors.Is(why, ErrHung) {
					t.Errorf("the process exits with %d: %v", code, why)
				}
				g.exits = append(g.exits, time.Since(began))
			}, slog.New(slog.DiscardHandler))
		g.limit = w.Limit()
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
		time.Sleep(g.limit + StuckLimit - watchEvery) // in a bubble
		synctest.Wait()
		if len(g.exits) > 0 {
			t.Errorf("stuck-write-exits: after %v already", g.exits[0])
		}
		time.Sleep(5 * watchEvery) // in a bubble
		synctest.Wait()
		if len(g.exits) == 0 {
			t.Errorf("stuck-write-exits: not within %v", g.limit+StuckLimit+4*watchEvery)
		}
	})
}

// A write that returns within StuckLimit mutes this peer for that long alone.
func TestThawedDiskEndsNoProcess(t *testing.T) {
	underGuard(t, func(g *guarded) {
		g.disk.hang(true)
		time.Sleep(StuckLimit) // in a bubble
		g.disk.hang(false)
		time.Sleep(2 * StuckLimit) // in a bubble
		synctest.Wait()
		if len(g.exits) > 0 {
			t.Errorf("the process exited %v after its disk hung for %v", g.exits[0], StuckLimit)
		}
		if want := []bool{true, false}; !slices.Equal(g.hung, want) || !slices.Equal(g.disk.mutes, want) {
			t.Errorf("hung-is-reported: fitness heard %v, the transport %v, want %v", g.hung, g.disk.mutes, want)
		}
	})
}
