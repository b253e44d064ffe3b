package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore"
)

// Rules of fitness (docs/design.md#leadership).
const (
	// fitnessCheck is how often a peer asks itself whether it may lead.
	fitnessCheck = 250 * time.Millisecond
	// refuseAfterDisk is how long a peer stands aside after its disk failed or
	// hung: else it wins again and again (hashicorp/raft issue 614).
	refuseAfterDisk = 30 * time.Second
	// leaderlessLimit is after how long without any leader a refusal lapses, or after a
	// succession where that takes longer: the others have their election first. A peer
	// that refuses may hold the newest log alone, and then no other peer can be
	// elected: a doubtful leader is better than none, and hands leadership on as
	// soon as another can take it.
	leaderlessLimit = 3 * time.Second
	// passLimit is the same for a peer that must not lead at all. Where it holds
	// the newest log alone it is elected, leads in no duty and hands leadership
	// on at once; nothing is gained by waiting longer than elections last.
	passLimit = 2 * time.Second
	// yieldFor is how long such a peer, when no voter took the leadership that it
	// handed on, lets the others try: also those whose refusals have yet to lapse.
	yieldFor = 15 * time.Second
	// LiftFor is how long an operator's word that maintenance is over counts on
	// this peer alone, so that it may be elected and put it into the log.
	LiftFor = time.Minute
	// MaxSkew is how far a wall clock may be off the median of all peers.
	MaxSkew = 5 * time.Second
)

// ErrMaintenance is why a peer in maintenance does not lead.
var (
	ErrMaintenance = errors.New("it is in maintenance")
	errObserver    = errors.New("it is an observer")
)

// Host is what Fitness looks at on this peer.
type Host interface {
	Cluster
	DiskFailure() (time.Time, error)
	Refuse(on bool)
}

// Cluster is what this peer knows of its cluster.
type Cluster interface {
	View() fsm.View
	Servers() []raftstore.Server
	Leader() (raftstore.Server, bool)
}

// Fitness decides whether this peer may lead and makes raft stand aside while
// it may not. Its methods may be called concurrently.
type Fitness struct {
	peer string
	host Host
	log  *slog.Logger
	also []func() error
	// succession is that of the election clocks.
	succession time.Duration

	mu      sync.Mutex
	hung    time.Time     // when the watchdog last tripped over this peer's own disk
	stuck   bool          // the disk hangs still
	stopped bool          // this peer is shutting down
	lifted  time.Time     // until when maintenance is over, also against the log
	yields  time.Time     // until when it lets the others try
	led     time.Time     // when a leader was last known
	skew    time.Duration // of the wall clock, when it was last known
	why     error
}

// NewFitness judges the peer with this server ID and these election clocks. also are
// further reasons not to lead, nil while there is none; they must not block.
func NewFitness(peer string, host Host, t raftstore.Timing, log *slog.Logger, also ...func() error) *Fitness {
	return &Fitness{peer: peer, host: host, succession: t.Succession(), log: log, also: also, led: time.Now()}
}

// Fit returns why this peer should not lead at this moment, nil if it may.
func (f *Fitness) Fit() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.judgeFitness(time.Now())
}

func (f *Fitness) judgeFitness(now time.Time) error {
	if f.stopped {
		return errors.New("it is stopping")
	}
	if err := f.barred(now); err != nil {
		return err
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
	if skew, known := Skew(view.VoterSessions(), view.Leadership().At, f.peer); known {
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

// Barred returns why this peer must not lead, also where no other peer can; nil if
// it may. An operator has said so, and nothing but an operator's word ends it.
func (f *Fitness) Barred() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.barred(time.Now())
}

func (f *Fitness) barred(now time.Time) error {
	switch flags := f.host.View().MemberFlags(f.peer); {
	case flags.Observer && f.replaceable():
		return errObserver
	case flags.Maintenance && !now.Before(f.lifted):
		return ErrMaintenance
	}
	return nil
}

// replaceable reports whether another voter is no observer. The log counts members
// that are to get their vote back: until one has it, which takes a leader, an observer
// that holds the last vote leads on.
func (f *Fitness) replaceable() bool {
	view := f.host.View()
	return slices.ContainsFunc(f.host.Servers(), func(s raftstore.Server) bool {
		return s.Voter && s.ID != f.peer && !view.MemberFlags(s.ID).Observer
	})
}

// Lift ends this peer's maintenance for LiftFor, on this peer alone: without a
// leader its end cannot be put into the log.
func (f *Fitness) Lift() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lifted = time.Now().Add(LiftFor)
}

// Yield notes that no voter took leadership from this peer, which must not lead.
func (f *Fitness) Yield() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.yields = time.Now().Add(yieldFor)
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
	for range pace.Every(ctx, fitnessCheck) {
		f.update()
	}
}

// update judges, and tells raft.
func (f *Fitness) update() {
	now := time.Now()
	_, led := f.host.Leader()
	f.mu.Lock()
	if led {
		f.led = now
	}
	why := f.judgeFitness(now)
	changed := (why == nil) != (f.why == nil)
	f.why = why
	f.host.Refuse(f.stopped || why != nil && now.Sub(f.led) < f.refusalTime(now))
	f.mu.Unlock()
	if changed {
		f.log.Warn("fitness to lead changed", "fit", why == nil, "reason", why)
	}
}

// refusalTime is for how long without a leader a refusal stands.
func (f *Fitness) refusalTime(now time.Time) time.Duration {
	switch {
	case f.barred(now) == nil:
		return max(leaderlessLimit, f.succession)
	case now.Before(f.yields):
		return yieldFor
	default:
		return max(passLimit, f.succession)
	}
}

// Skew returns how far the peer's wall clock is off the median of all live
// sessions, by what each reported with its newest renewal; zero when fewer than
// three report, since two clocks that differ do not tell which one is wrong.
//
// Reports are relative to the wall clock of the leader that took them. Until every
// session was renewed under the leadership since then, within 3 s, they cannot be
// compared, and nothing is known: peers whose clocks were right, reported to a
// leader whose clock was wrong, would look wrong next to the others.
//
// It is the median of all, not of the others: with three peers that are all apart,
// the median of the others would exclude every one and leave no leader; the median
// of all excludes the same outlier and always leaves the median peer
// (docs/design.md#leadership). With an even number the nearer of the two middle
// clocks counts, for the same reason.
func Skew(sessions []membership.Session, since fsm.Time, peer string) (skew time.Duration, known bool) {
	const quorate = 3
	if len(sessions) < quorate {
		return 0, true
	}
	var all []int64
	own, reported := int64(0), false
	for _, s := range sessions {
		if renewed := s.Expires.Add(-membership.SessionTTL); !renewed.After(since) {
			return 0, false
		}
		all = append(all, s.SkewMillis)
		if s.Peer == peer {
			own, reported = s.SkewMillis, true
		}
	}
	if !reported {
		return 0, true
	}
	slices.Sort(all)
	low := own - all[(len(all)-1)/2]
	high := own - all[len(all)/2]
	if max(low, -low) > max(high, -high) {
		low = high
	}
	return time.Duration(low) * time.Millisecond, true
}
