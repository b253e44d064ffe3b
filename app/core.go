package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/inspector/accept"
	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/api/receivers"
	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/lease"
	"github.com/trivet-ha/trivet/lease/elector"
	"github.com/trivet-ha/trivet/lease/leaderrpc"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/host"
	"github.com/trivet-ha/trivet/raftstore/leader"
	"github.com/trivet-ha/trivet/raftstore/logerr"
	"github.com/trivet-ha/trivet/raftstore/raftguard"
)

// handOverLimit bounds the transfer of leadership at an orderly stop.
const handOverLimit = 2 * time.Second

// The log's size is looked at every sizeCheck; a snapshot is taken when more
// than snapshotBytes were logged since the last one. Raft's own trigger counts
// entries: 8,192 of 2 MiB would be 16 GiB.
const (
	sizeCheck     = 10 * time.Second
	snapshotBytes = 64 << 20
)

// CoreOptions are the parts of a Core.
type CoreOptions struct {
	Raft   raftstore.Options // whose clock and logger are those of all parts
	Self   cluster.Self
	Random io.Reader
	// Introspection, if set, makes the peer introspect nodes.
	Introspection *Introspection
	// Gate, if set, makes the peer guard its host's door.
	Gate *Gate
	// Failover, if set, makes the peer look after kube nodes.
	Failover *Failover
	// Electing is what the peer can tell others of who leads; nothing by default.
	Electing Electing
	// Leader, if set, is how leases are asked for where another peer leads.
	Leader leaderrpc.Asker
	Contact
	// Former asks the members of before a founding; nil: they are not asked, and
	// PXE service stays closed while there are any.
	Former cluster.FormerAsker
	// Receivers, if set, are sent events by the leader.
	Receivers *receivers.Deliverer
	// Upgrade is how the other peers are asked for an upgrade's end, and after what time
	// the leader asks by itself; 0: never.
	Upgrade Upgrade
	// Duties run on the leader after the built-in ones, in this order.
	Duties []leader.Duty
	Owner  Owner
}

// Contact is how a peer knows which others are heard.
type Contact struct {
	// Prober asks other peers for sign of life; nil: none is asked, and
	// Core.Contacts is nil. Machine and Returned are parts of cluster.ContactOptions.
	Prober   cluster.Prober
	Machine  cluster.Machine
	Returned func(id string, failed time.Time)
}

// Upgrade is what a peer needs to finalize one.
type Upgrade struct {
	Hosts cluster.UpgradeHosts
	After time.Duration
}

// Owner is the process that runs a Core.
type Owner struct {
	// Exit ends the process at once.
	Exit func(code int, why error)
	// Removed hears that the cluster does not know this peer any more, and
	// RolledBack that its disk holds less than the peer had acknowledged.
	Removed    func()
	RolledBack func(error)
	// Unfit, if set, is one more reason not to lead; it must not block.
	Unfit func() error
	// Probed, if set, hears on the leader, each second, how long a write took.
	Probed func(took time.Duration)
}

// Core is one peer without sockets and files: the log, this peer's session,
// and leadership with its duties. The simulation runs whole Cores.
type Core struct {
	Store *raftstore.Store
	// Stored is the newest entry that was on the disk before the log was opened.
	Stored   fencing.Token
	Session  *cluster.Session
	Runner   *leader.Runner
	Fitness  *leader.Fitness
	Watchdog *leader.Watchdog
	// Contacts knows who is heard; nil without CoreOptions.Prober.
	Contacts *cluster.Contacts
	// Service answers the inspector's API; nil without Introspection, like Reach.
	Service *accept.Service
	Reach   *ironic.Reach
	// Lending lends leases to other programs.
	Lending *lease.Service
	// Finalizer ends an upgrade.
	Finalizer *cluster.Finalizer
	// Elector knows who leads; nil without CoreOptions.Electing.
	Elector *elector.Witness

	effects
	running
	log *slog.Logger
}

// effects are the parts of a Core that reach outside.
type effects struct {
	inspect *introspector
	gate    *gate      // nil without CoreOptions.Gate
	kube    *kubeWatch // nil while failover is off
}

// running are the goroutines of a Core.
type running struct {
	began   time.Time          // from which on the rounds of all loops are counted
	stopRun context.CancelFunc // ends the leader loop
	stopAll context.CancelFunc // ends session and fitness
	runner  sync.WaitGroup
	rest    sync.WaitGroup
	tasks   sync.WaitGroup
	resign  sync.Once
}

// StartCore opens the log and starts everything that stands on it. What a
// crashed process may have left open is shut first.
func StartCore(o CoreOptions) (*Core, error) {
	closeDoor(o)
	last, err := host.LastIndex(o.Raft.Storage)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	patient := host.Patient(o.Raft.Transport)
	o.Raft.Transport = patient
	o.Raft.Storage.Log = raftguard.WatchEnd(o.Raft.Storage.Log,
		func(err error) { o.Owner.Exit(leader.ExitLostLeadership, err) })
	store, err := raftstore.Open(o.Raft)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	patient.Follow(store)
	c := &Core{Store: store, Stored: fencing.At(store.View().Base(), last), Elector: o.newWitness(store),
		log: o.Raft.Logger}
	if o.Introspection != nil {
		c.Reach = ironic.NewReach(o.Introspection.Ironic, o.Introspection.Ramdisks, o.Raft.Logger)
	}
	ironicAway := func() error { return health.IronicAway(c.Reach, store.View(), store.ID()) }
	if o.Gate != nil {
		c.gate = newGate(*o.Gate, store, o.Raft.Logger)
	}
	c.Fitness = leader.NewFitness(o.Self.Peer, store, o.Raft.Timing, o.Raft.Logger, ironicAway, c.gate.unfit, o.unfit)
	c.Watchdog = leader.NewWatchdog(store, o.Raft.Timing, c.Fitness.Hung, o.Owner.Exit, o.Raft.Logger)
	c.Watchdog.Probed = o.Owner.Probed
	c.Session = cluster.NewSession(cluster.SessionOptions{
		Log: store, Self: o.Self, Wall: o.Raft.Wall, Random: o.Random, Refuses: c.Fitness.Fit, Removed: o.Owner.Removed,
		Outdated: o.Raft.Fatal,
		Stored:   c.Stored, RolledBack: o.Owner.RolledBack, Logger: o.Raft.Logger,
		NoIronic: func() bool { return c.Reach != nil && !c.Reach.Proven() }, Unfinished: o.unfinished(),
	})
	if o.Prober != nil {
		c.Contacts = cluster.NewContacts(
			cluster.ContactOptions{Self: o.Self.Peer, Log: store, Prober: o.Prober, Machine: o.Machine, Returned: o.Returned})
	}
	c.Lending = newLending(o, store, api.Traced(c.Session))
	c.Finalizer = &cluster.Finalizer{Log: store, Session: c.Session, Hosts: o.Upgrade.Hosts, After: o.Upgrade.After,
		Logger: o.Raft.Logger}
	members := cluster.NewMembership(store, o.Self.Peer, o.Raft.Logger)
	duties := []leader.Duty{c.Watchdog, leader.Task("membership", members.Run),
		leader.NewRotation(store.View, o.Raft.Logger), leader.Task("finalize upgrade", c.Finalizer.Run)}
	if o.Former != nil {
		formers := cluster.NewFormers(store.View, o.Former, o.Raft.Logger)
		duties = append(duties, duty{"former members",
			func(ctx context.Context, a firewall.Authority) error { return formers.Run(ctx, a) }})
	}
	if o.Introspection != nil {
		c.inspect, err = newIntrospector(*o.Introspection, c.Reach, store, c.Session, o.Raft.Logger)
		if err != nil {
			return nil, errors.Join(err, store.Close(context.Background()))
		}
		c.Service = c.inspect.Service
		duties = append(duties, c.inspect.duties()...)
	}
	if o.Receivers != nil {
		duties = append(duties, o.Receivers.Duty(store))
	}
	duties = append(duties, o.Duties...)
	if o.Failover != nil {
		kube := newKubeWatch(*o.Failover, o.Self, c, o.Raft.Wall, o.Raft.Logger)
		duties = append(duties, kube.Controller)
		if o.Failover.Settings.Mode != failover.ModeOff { // else no other part of a peer has to do with it
			c.kube = kube
		}
	}
	duties = append(duties, c.gate.duties()...)
	c.Runner = leader.NewRunner(leader.Options{
		Log:      leader.OnStore(store),
		Lead:     fsm.Lead{Peer: o.Self.Peer, Boot: o.Self.Boot, Version: fsm.Version},
		Duties:   duties,
		Fit:      c.fit,
		Barred:   c.Fitness.Barred,
		Yield:    c.yield,
		StepDown: c.stepDown,
		Abdicate: func(ctx context.Context) { c.Fitness.Yield(); store.Abdicate(ctx) },
		Exit:     o.Owner.Exit,
		Logger:   o.Raft.Logger,
	})
	c.startDuties(orphan{o.Self.Peer, store, o.Raft.Forward.ReadIndex}, o.Owner.Removed)
	return c, nil
}

func (o CoreOptions) unfit() error {
	if o.Owner.Unfit == nil {
		return nil
	}
	return o.Owner.Unfit()
}

func (o CoreOptions) unfinished() []introspection.Unfinished {
	if o.Introspection == nil {
		return nil
	}
	return o.Introspection.Unfinished
}

// closeDoor shuts what a crashed process may have left. That it cannot is no
// reason to stay down: the kernel shuts by itself, and this peer never opens.
func closeDoor(o CoreOptions) {
	if o.Gate == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), gateGrace)
	defer cancel()
	guard := firewall.NewGuard(firewall.GuardOptions{Lease: o.Gate.Lease, Address: o.Gate.Address, Logger: o.Raft.Logger})
	if err := guard.CloseAtStart(ctx); err != nil {
		o.Raft.Logger.Error("close PXE service of an earlier process failed", "err", err)
	}
}

func (c *Core) startDuties(lost orphan, removed func()) {
	c.began = time.Now()
	ctx, stopAll := context.WithCancel(pace.Together(context.Background(), c.began))
	runCtx, stopRun := context.WithCancel(ctx)
	c.stopAll, c.stopRun = stopAll, stopRun
	c.runner.Go(func() { c.Runner.Run(runCtx) })
	c.rest.Go(func() { c.Session.Run(ctx) })
	c.rest.Go(func() { lost.watchMembership(ctx, removed) })
	c.rest.Go(func() { c.Fitness.Run(ctx) })
	c.rest.Go(func() { c.Watchdog.Guard(ctx) })
	c.rest.Go(func() { c.snapshotBySize(ctx) })
	c.rest.Go(func() {
		heard := contacts{store: c.Store, log: c.log}
		for range pace.After(ctx, contactCheck) {
			heard.checkContacts(time.Now())
		}
	})
	if c.Contacts != nil {
		c.rest.Go(func() { c.Contacts.Run(ctx) })
	}
	if c.gate != nil {
		c.rest.Go(func() { c.gate.Lists.Run(ctx) })
	}
	if c.Elector != nil {
		c.rest.Go(func() { c.Elector.Run(ctx) })
	}
	if k := c.kube; k != nil && k.made.Settings.Mode == failover.ModeSafe {
		c.rest.Go(func() { k.Prober.Run(ctx) })
	} else if k != nil { // mode noobaa asks the API server alone
		c.rest.Go(func() { k.reports.Run(ctx) })
	}
	if in := c.inspect; in != nil {
		c.rest.Go(func() { in.notifier.Run(ctx) })
		c.rest.Go(func() { in.reach.Run(ctx) })
		c.rest.Go(func() { in.Service.Lists.Run(ctx) })
		c.tasks.Go(func() { in.Workers.Run(ctx, in.stop) })
		c.rest.Go(func() { c.followMaintenance(ctx) })
	}
}

func (c *Core) snapshotBySize(ctx context.Context) {
	failing := logs.Limit(c.log)
	for range pace.After(ctx, sizeCheck) {
		if c.Store.Stats().LogBytes < snapshotBytes {
			continue
		}
		if err := c.Store.Snapshot(ctx); err != nil && ctx.Err() == nil {
			failing.Warn("take snapshot failed, retrying; the raft log keeps growing", "err", err)
		}
	}
}

// fit returns why another peer should lead, nil if this one is fit or there is
// no other.
func (c *Core) fit() error {
	if err := c.Fitness.Fit(); err != nil && leader.HasSuccessor(c.Store, c.Store.ID()) {
		return err
	}
	return nil
}

func (c *Core) stepDown(ctx context.Context) error {
	return leader.StepDown(ctx, c.Store, c.Store.ID())
}

// Resign ends work and leadership here, in the order of docs/design.md#stop: workers
// claim no more, duties stop (the gate closes first), leadership is handed on,
// and running tasks end. They come last, since a slow Ironic must not keep the
// others waiting for a leader. The peer does not lead or work again before it is
// started again.
func (c *Core) Resign(ctx context.Context) error {
	if c.inspect != nil {
		c.resign.Do(func() { close(c.inspect.stop) }) // the workers begin nothing more
	}
	defer c.tasks.Wait()
	if c.gate != nil {
		c.gate.stop(ctx) // before unfitness ends the leadership under which it says so
	}
	c.Fitness.Stop()
	c.stopRun()
	c.runner.Wait()
	if role, _ := c.Store.Role(); !role.Leader {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, handOverLimit)
	defer cancel()
	return c.stepDown(ctx)
}

// Rest lets the workers end what they have begun, and begin nothing more until
// resume is called: a peer that is taken out of the cluster loses what it holds
// at that moment. It fails, with the workers back at work, when they have not
// ended before ctx does.
func (c *Core) Rest(ctx context.Context) (resume func(), err error) {
	if c.inspect == nil {
		return func() {}, nil
	}
	const pause = 50 * time.Millisecond
	workers := c.inspect.Workers
	workers.Pause(true)
	for held := c.held(); !workers.Idle() || held > 0; held = c.held() {
		if !pace.Wait(ctx, pause) {
			workers.Pause(c.maintained())
			return nil, fmt.Errorf("its workers hold %d nodes still: %w", held, context.Cause(ctx))
		}
	}
	return func() { workers.Pause(c.maintained()) }, nil
}

// held counts the nodes that this peer has claimed.
func (c *Core) held() (n int) {
	session := c.Session.ID()
	for _, claim := range c.Store.View().Claims() {
		if claim.Session == session {
			n++
		}
	}
	return n
}

func newLending(o CoreOptions, store *raftstore.Store, do lease.Doer) *lease.Service {
	lend := lease.Options{Log: store, Do: do, MinTTL: lease.ShortestTTL(o.Raft.Timing.Succession())}
	if o.Leader != nil {
		lend.Leader = leaderrpc.NewLeader(store, o.Leader)
	}
	return lease.New(lend)
}

// AnswerLending answers what other peers ask this one about leases while it leads.
func (c *Core) AnswerLending(ctx context.Context, path string, question []byte) ([]byte, error) {
	return leaderrpc.Answer(ctx, c.Store, c.Lending, path, question)
}

// Close stops without handing leadership on, in any state of the peer.
func (c *Core) Close(ctx context.Context) error {
	c.Fitness.Stop()
	c.Lending.Close()
	c.stopAll()
	c.runner.Wait()
	c.tasks.Wait()
	c.rest.Wait()
	err := c.Store.Close(ctx)
	if errors.Is(err, logerr.ErrClosed) {
		return nil
	}
	return err
}

// maintained says whether an operator has put this peer into maintenance.
func (c *Core) maintained() bool { return c.Store.View().MemberFlags(c.Store.ID()).Maintenance }

// followMaintenance lets the workers claim nothing while this peer is in
// maintenance; what they have begun they end.
func (c *Core) followMaintenance(ctx context.Context) {
	rests := false
	for {
		_, changed := c.Store.Changed()
		if now := c.maintained(); now != rests {
			rests = now
			c.log.Info("maintenance changed", "maintenance", now)
			c.inspect.Workers.Pause(now)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// age is how old this peer's own view may be; below 0: nothing bounds it.
func (c *Core) age() time.Duration {
	age, known := raftstore.Age(context.Background(), c.Store)
	if !known {
		return -1
	}
	return age
}
