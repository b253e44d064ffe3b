package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore"
)

// Rules of fitness (design §5.1).
const (
	// fitnessCheck is how often a peer asks itself whether it may lead.
	fitnessCheck = 250 * time.Millisecond
	// refuseAfterDisk is how long a peer stands aside after its disk failed or
	// hung: else it wins again and again (hashicorp/raft issue 614).
	refuseAfterDisk = 30 * time.Second
	// leaderlessLimit is after how long without any leader a refusal lapses. A
	// peer that refuses may hold the newest log alone, and then nobody else can
	// be elected: a doubtful leader is better than none, and hands leadership
	// on as soon as another can take it.
	leaderlessLimit = 3 * time.Second
	// MaxSkew is how far a wall clock may be off the median of all peers.
	MaxSkew = 5 * time.Second
)

// Host is what Fitness looks at on this peer.
type Host interface {
	View() fsm.View
	DiskFailure() (time.Time, error)
	Leader() (raftstore.Server, bool)
	Refuse(on bool)
}

// Fitness decides whether this peer may lead and makes raft stand aside while
// it may not. Its methods may be called concurrently.
type Fitness struct {
	peer string
	host Host
	log  *slog.Logger
	also []func() error

	mu      sync.Mutex
	hung    time.Time     // when the watchdog last tripped over this peer's own disk
	stuck   bool          // the disk hangs still
	stopped bool          // this peer is shutting down
	led     time.Time     // when a leader was last known
	skew    time.Duration // of the wall clock, when it was last known
	why     error
}

// NewFitness judges the peer with this server ID. also are further reasons not to
// lead, nil while there is none; they must not block.
func NewFitness(peer string, host Host, log *slog.Logger, also ...func() error) *Fitness {
	return &Fitness{peer: peer, host: host, log: log, also: also, led: time.Now()}
}

// Fit returns why this peer should not lead at this moment, nil if it may.
func (f *Fitness) Fit() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.judge(time.Now())
}

func (f *Fitness) judge(now time.Time) error {
	if f.stopped {
		return errors.New("it is stopping")
	}
	if at := f.hung; !at.IsZero() && now.Sub(at) < refuseAfterDisk {
		if f.stuck {
			return fmt.Errorf("%w: its disk hangs since %v", ErrHung, now.Sub(at).Round(time.Second))
		}
		return fmt.Errorf("its disk hung %v ago", now.Sub(at).Round(time.Second))
	}
	if at, err := f.host.DiskFailure(); err != nil && now.Sub(at) < refuseAfterDisk {
		return fmt.Errorf("its log could not be written %v ago: %v", now.Sub(at).Round(time.Second), err)
	}
	view := f.host.View()
	if skew, known := Skew(view.Sessions(), view.Leadership().At, f.peer); known {
		f.skew = skew // else what was known under the leader before
	}
	if f.skew.Abs() > MaxSkew {
		return fmt.Errorf("its wall clock is %v off the other peers'; set it (chronyc makestep)", f.skew.Round(time.Second))
	}
	for _, reason := range f.also {
		if err := reason(); err != nil {
			return err
		}
	}
	return nil
}

// Hung notes that this peer's disk hangs, or that it does no more.
func (f *Fitness) Hung(now bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stuck = now
	if now {
		f.hung = time.Now()
	}
}

// Stop makes this peer stand aside for good: it is shutting down.
func (f *Fitness) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	f.host.Refuse(true)
}

// Run keeps raft informed until ctx ends.
func (f *Fitness) Run(ctx context.Context) {
	tick := time.NewTicker(fitnessCheck)
	defer tick.Stop()
	for {
		f.update()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (f *Fitness) update() {
	if changed, why := f.look(time.Now()); changed {
		f.log.Warn("fitness to lead changed", "fit", why == nil, "why", why)
	}
}

// look judges and tells raft; changed says whether the answer is another one.
func (f *Fitness) look(now time.Time) (changed bool, why error) {
	_, led := f.host.Leader()
	f.mu.Lock()
	defer f.mu.Unlock()
	if led {
		f.led = now
	}
	why = f.judge(now)
	changed = (why == nil) != (f.why == nil)
	f.why = why
	f.host.Refuse(f.stopped || why != nil && now.Sub(f.led) < leaderlessLimit)
	return changed, why
}
