package raftstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/raftstore/logerr"
	"github.com/trivet-ha/trivet/raftstore/raftguard"
)

// Store is one peer's end of the replicated log. All its methods may be called
// concurrently.
type Store struct {
	*views
	voter
	opts    Options
	raft    *raft.Raft
	machine *machine
	net     *provingTransport
	log     *raftguard.Log
	opened  uint64 // the last entry that was stored when it was opened
	roles   *roleKeeper

	leading atomic.Pointer[Leadership] // nil: no Lead of ours is in force
	slots   slots
	pulse   chan struct{} // capacity 1: a proof waits for heartbeats

	life context.Context // ends when Close begins
	stop context.CancelFunc
	done sync.WaitGroup
}

// Open starts raft on what opts.Storage holds: nothing (a joiner waits for the
// leader to find it), or what Seed, Recover or an earlier run left there. On
// error everything it opened is closed; opts.Storage stays the caller's then.
func Open(opts Options) (s *Store, err error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := func() { cancel(logerr.ErrClosed) }
	voter := voter{raftguard.NewGate(opts.Monotonic)}
	s = &Store{
		voter:   voter,
		opts:    opts,
		machine: newMachine(ctx, opts.Fatal),
		net:     newProvingTransport(opts.Transport, opts.Storage, voter.gate),
		log:     raftguard.NewLog(raftguard.GradualDeletion{LogStore: opts.Storage.Log, Closing: ctx.Done()}),
		roles:   newRoleKeeper(),
		slots:   slots{taken: make(chan struct{}, maxInFlight)},
		pulse:   make(chan struct{}, 1),
		life:    ctx,
		stop:    stop,
	}
	s.views = s.machine.views
	defer func() {
		if r := recover(); r != nil { // bbolt panics on a damaged page
			err = &CorruptError{Path: "the log", Err: fmt.Errorf("%v", r)}
		}
		if err != nil {
			stop()
			err = errors.Join(err, s.net.Close())
			s = nil
		}
	}()
	if s.net.terms, err = raftguard.NewTermGuard(opts.Storage.Stable, s.gate.Raise); err != nil {
		return s, err
	}
	s.net.self = raftguard.Follower{Applied: func() uint64 { return s.View().Index() }, Term: s.net.terms.Term,
		Failure: s.log.Failure}
	s.net.idle = raftguard.Idle{Log: s.log, Most: opts.Timing.Heartbeat, Stop: ctx.Done()}
	s.net.done.Go(s.net.relay)
	snaps, err := s.log.Snapshots(opts.Storage.Snapshots)
	if err != nil {
		return s, &CorruptError{Path: "the snapshots", Err: err}
	}
	cache, err := raft.NewLogCache(logCacheEntries, s.log)
	if err != nil {
		return s, fmt.Errorf("open log cache: %w", err)
	}
	s.raft, err = raft.NewRaft(raftConfig(opts, s.roles.notify, func() []string { return s.View().MemberNames() }),
		s.machine, cache, s.net.terms, snaps, s.net)
	if err != nil && s.machine.unread != nil { // raft says only that none will do
		return s, s.machine.unread
	}
	if err != nil {
		return s, &CorruptError{Path: "the log or its snapshots", Err: err}
	}
	s.log.Counted()
	s.opened = s.raft.LastIndex()
	s.net.raft.Store(s.raft)
	s.raft.RegisterObserver(raft.NewObserver(s.roles.seen, false, leaders))
	s.done.Go(func() { s.roles.run(ctx) })
	s.done.Go(s.heartbeats)
	s.done.Go(func() { lookInTime(s) })
	return s, nil
}

// lookInTime has raft notice the silence of its leader in time.
func lookInTime(s *Store) {
	looks := raftguard.Looks{Raft: s.raft, Self: raft.ServerID(s.opts.ID), Heartbeat: s.opts.Timing.Heartbeat}
	if err := looks.Run(s.life.Done()); err != nil {
		s.opts.Logger.Error("watch for silence of the leader failed: elections begin up to two timeouts later", "err", err)
	}
}

func raftConfig(opts Options, notify chan<- bool, names func() []string) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(opts.ID)
	c.HeartbeatTimeout = opts.Timing.Heartbeat
	c.ElectionTimeout = opts.Timing.Election
	c.LeaderLeaseTimeout = opts.Timing.Lease
	c.CommitTimeout = opts.Timing.Commit
	c.MaxAppendEntries = maxAppendEntries
	c.BatchApplyCh = true
	c.TrailingLogs = trailingLogs
	c.ShutdownOnRemove = false // the app decides, from the leader's answer
	c.NotifyCh = notify
	c.NoLegacyTelemetry = true
	// A dead peer is logged by name; what raft adds, four times a second, is the error.
	c.Logger = raftguard.NewLogger(logs.LimitAt(opts.Logger, logs.Pace{Every: logs.Every, Most: 24 * time.Hour}), names)
	// raft counts entries; the app counts bytes and calls Snapshot.
	c.SnapshotInterval = 24 * time.Hour
	c.SnapshotThreshold = 1 << 62
	return c
}

// Close stops raft and waits for it; without transferring leadership, see
// Transfer. A disk that hangs is waited for until ctx ends.
func (s *Store) Close(ctx context.Context) error {
	if s.slots.closing.Swap(true) {
		return logerr.ErrClosed
	}
	s.stop()
	s.slots.drain(ctx)
	err := callWhenAnswered(ctx, s.raft.Shutdown(), func() {})
	s.done.Wait()
	if err != nil {
		return fmt.Errorf("stop raft: %w", err)
	}
	if s.opts.Storage.Close == nil {
		return nil
	}
	return s.opts.Storage.Close()
}

// ID returns this peer's server ID.
func (s *Store) ID() string { return s.opts.ID }

// Leader returns the server this peer believes to lead; ok is false if it
// knows none. It is a hint for forwarding and display, never proof.
func (s *Store) Leader() (Server, bool) {
	addr, id := s.raft.LeaderWithID()
	return Server{ID: string(id), Address: string(addr), Voter: true}, id != ""
}

// Stats are figures of the moment for status and metrics.
type Stats struct {
	Role        string
	Term        uint64
	LastIndex   uint64
	Applied     uint64
	LastContact time.Time     // with the leader; zero on the leader and before any
	LogBytes    uint64        // since the last snapshot, also before a restart
	WriteTook   time.Duration // of the newest log writes, their median
}

// Stats returns figures of the moment; it never blocks on the disk.
func (s *Store) Stats() Stats {
	return Stats{
		Role:        s.raft.State().String(),
		Term:        s.raft.CurrentTerm(),
		LastIndex:   s.raft.LastIndex(),
		Applied:     s.raft.AppliedIndex(),
		LastContact: s.raft.LastContact(),
		LogBytes:    s.log.Bytes(),
		WriteTook:   s.log.Took(),
	}
}

// DiskFailure returns the newest failed log write and when it was; nil if none
// failed since Open.
func (s *Store) DiskFailure() (time.Time, error) { return s.log.Failure() }

// Writing returns for how long the present log write has been under way.
func (s *Store) Writing() time.Duration { return s.log.Writing() }

// Mute makes this peer's transport fail what a leader or a candidate sends, so
// that the others elect although raft here still believes it leads.
func (s *Store) Mute(on bool) { s.net.muted.Store(on) }

// Refuse makes this peer stand aside in elections without slowing the others'.
func (s *Store) Refuse(on bool) { s.net.refusing.Store(on) }

// Snapshot writes the state next to the log and lets raft drop the log it covers.
func (s *Store) Snapshot(ctx context.Context) error {
	covered := s.log.Bytes()
	if s.View().Index() < s.opened { // what a start has yet to apply, no snapshot covers
		covered = 0
	}
	err := s.slots.awaitFuture(ctx, func() raft.Future { return s.raft.Snapshot() })
	if err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return fmt.Errorf("take snapshot: %w", err)
	}
	s.log.SnapshotTaken(covered)
	return nil
}
