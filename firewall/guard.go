package firewall

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/internal/logs"
)

// Values of the guard (docs/design.md#pxe-lease, docs/design.md#address). L is
// firewall.lease; D is 2 L.
const (
	// margin is added at the least to what another leader's kernel may take, before a
	// door is opened that it may hold open: kernels end an element a little late.
	margin = 250 * time.Millisecond
	// slewShare is the share of that time that is added at the least: NTP may let the
	// other host's clock run slow and ours fast, chrony each by a twelfth (its
	// maxslewrate), so that 11 s there are 13 s here.
	slewShare = 5
	// freshAddress is how old a proof may be when the address is written.
	freshAddress = 200 * time.Millisecond
	// addressLife is the address's life in the kernel, which counts seconds.
	addressLife = time.Second
	// addressEvery is how often it is renewed at the least.
	addressEvery = 300 * time.Millisecond
	// shutLimit bounds one attempt to shut; the kernel shuts by itself soon.
	shutLimit = 500 * time.Millisecond
	// again is the pause while the door is shut: after a failure, or until what the
	// door waits for is there.
	again = 50 * time.Millisecond
	// rebuildLimit is how long a leader whose rules another program flushed waits
	// for them to be rebuilt, before it hands leadership on without recording that
	// it closed.
	rebuildLimit = time.Second
)

// GuardOptions are the parts of a Guard.
type GuardOptions struct {
	Lease  Lease
	Lists  *Lists
	Log    Log
	Length time.Duration // L
	// Address is the floating IP; nil if there is none.
	Address Address
	// AddressText names it in the log.
	AddressText string
	// AddressLease lets the address out of this host; nil if the kernel cannot gate it.
	// Arm keeps the address in until it is opened, Address.Remove ends that.
	AddressLease Swap
	// Freeze is for how long a hypervisor may freeze the host of a holder, of which
	// its clocks and its kernel's timers know nothing: a new holder waits longer by it.
	Freeze time.Duration
	Logger *slog.Logger
}

// Guard opens the PXE service: the leader's last duty. It proves leadership,
// swaps the lease, and closes on every doubt. One goroutine does it all, so that
// a process stopped anywhere wakes up with an element that has ended. Between
// two leaderships no goroutine touches the lease.
type Guard struct {
	o       GuardOptions
	failing *slog.Logger // of what fails at each round

	mu          sync.Mutex
	status      GuardStatus
	stop        chan struct{} // closed to make the guard close for good
	stopped     chan struct{} // closed when it has closed for good
	stoppedOnce sync.Once     // closes stopped
	running     bool
	handOver    *handOver // of the present leadership; nil before the first
}

// handOver is how Yield makes one leadership close before the next one opens.
type handOver struct {
	asked, done chan struct{} // each closed once: by Yield, and when it has closed
	once        sync.Once     // closes asked
}

// NewGuard returns a guard; CloseAtStart comes first, then Run per leadership.
func NewGuard(o GuardOptions) *Guard {
	return &Guard{o: o, failing: logs.Limit(o.Logger), stop: make(chan struct{}), stopped: make(chan struct{}),
		status: GuardStatus{Why: "this peer does not lead", Since: time.Now()}}
}

// CloseAtStart removes what a crashed process may have left, before anything
// else is done: the address first, then the door.
func (g *Guard) CloseAtStart(ctx context.Context) error {
	var errs []error
	if g.o.Address != nil {
		errs = append(errs, g.o.Address.Remove(ctx))
	}
	return errors.Join(append(errs, g.o.Lease.Shut(ctx))...)
}

// Run guards the door for one leadership, until ctx ends.
func (g *Guard) Run(ctx context.Context, a Authority) error {
	w := &watch{
		g: g, a: a, others: others{began: time.Now()},
		handOver: &handOver{asked: make(chan struct{}), done: make(chan struct{})},
		rivals:   rivals{heard: make(chan string, 1), work: new(sync.WaitGroup)},
	}
	g.mu.Lock()
	g.running, g.handOver, g.status.Token = true, w.handOver, a.Token()
	g.mu.Unlock()
	g.o.Lists.Lead(a.Token())
	defer func() {
		// A peer that stops does not make its rules a follower's: its door is shut for
		// good, and long lists are not finished before the process is.
		select {
		case <-g.stop:
		default:
			g.o.Lists.Lead(0)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.running = false
		g.status.Token = 0
		g.status.ConflictMAC = "" // a peer that does not lead looks for no conflict
	}()
	defer w.rivals.work.Wait()
	defer w.inquiry.work.Wait()
	defer w.rerecord.work.Wait()
	running, cancel := context.WithCancel(ctx)
	defer cancel() // after the door is shut
	defer func() { w.closeDoor(ended(ctx)) }()
	return w.holdDoor(running)
}

// ended says why PXE is closed after a leadership: that another peer leads, or what
// is wrong with this one.
func ended(ctx context.Context) string {
	const text = "this peer does not lead"
	if why := context.Cause(ctx); why != nil && !errors.Is(why, context.Canceled) {
		return text + ": " + why.Error()
	}
	return text
}

// Stop closes for good and, if this peer's leadership had opened, records that in
// the log, so that the next leader need not wait: for an orderly stop. It
// returns when that is done, or with ctx; the next leader waits then.
func (g *Guard) Stop(ctx context.Context) {
	g.mu.Lock()
	running := g.running
	select {
	case <-g.stop:
	default:
		close(g.stop)
	}
	g.mu.Unlock()
	if !running {
		return
	}
	select {
	case <-g.stopped:
	case <-ctx.Done():
	}
}

// Yield is Stop for the present leadership alone, before it is handed on. A
// leadership that yielded opens no more: if no other peer takes over, this peer
// opens again only in its next leadership. It returns when the log has the record
// that the service is closed, or with ctx.
func (g *Guard) Yield(ctx context.Context) {
	g.mu.Lock()
	running, h := g.running, g.handOver
	g.mu.Unlock()
	if !running {
		return
	}
	h.once.Do(func() { close(h.asked) })
	select {
	case <-h.done:
	case <-ctx.Done():
	}
}

// watch is the guard's work under one leadership. It belongs to Run's goroutine.
type watch struct {
	g        *Guard
	a        Authority
	others   others
	handOver *handOver

	door     kernelElement
	shown    shownAddress
	recorded bool // PassOpen of this token is in the log
	taken    bool // AddressTaken of this token is in the log
	drift    int  // of the lists, when this leadership first found them right
	counted  bool // drift is set
	announce announcements
	inquiry  inquiry // for the address before it is taken
	rivals   rivals  // for it while it is held
	rerecord rerecords
	left     time.Duration // at most, until the next turn
}

// holdDoor opens when it may and holds what is open, a proof before every write.
func (w *watch) holdDoor(ctx context.Context) error {
	tick := min(w.g.o.Length/3, addressEvery)
	for ctx.Err() == nil {
		select {
		case <-w.g.stop:
			return w.stopAndRecord(ctx, "this peer stops")
		case <-w.handOver.asked:
			return w.stopAndRecord(ctx, "this peer hands leadership on")
		default:
		}
		pause := tick
		if err := w.takeTurn(ctx); err != nil && ctx.Err() == nil {
			w.closeDoor(err.Error())
			if errors.Is(err, ErrForeign) {
				w.recordRebuilt(ctx)
				return err // hands leadership on, to a host whose rules are intact
			}
			w.g.failing.Warn("hold PXE service open failed, retrying", "err", err)
		}
		if !w.door.open {
			pause = again
		}
		w.waitForTurn(ctx, min(pause, w.left))
	}
	return nil
}

// waitForTurn waits for the next turn. A shut door waits for any change of the lists;
// while it is open they change all the time, and only a change by another program
// counts.
func (w *watch) waitForTurn(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		lists, changed := w.g.o.Lists.State()
		if w.door.open && lists.Drift != w.drift {
			return
		}
		select {
		case <-changed:
			if !w.door.open {
				return
			}
		case <-timer.C:
			return
		case mac := <-w.rivals.heard:
			w.defendAddress(mac)
			return
		case f := <-w.inquiry.answer:
			w.inquiry.keepAnswer(f)
			return
		case <-w.g.stop:
			return
		case <-w.handOver.asked:
			return
		case <-ctx.Done():
			return
		}
	}
}

// takeTurn is one turn: everything is written on the strength of a proof, which
// began after what is swapped from was written. To open takes one of its own.
func (w *watch) takeTurn(ctx context.Context) error {
	w.left = addressEvery
	w.recordAgain(ctx)
	why, err := w.whyShut(ctx)
	if err != nil {
		return err
	}
	if why != "" && w.door.open {
		w.endLease(why)
	}
	door := why == ""
	if door && !w.door.open {
		// The address takes longer: its neighbours are asked whether it is free.
		if err := w.writeDoorAndAddress(ctx, true, false); err != nil {
			return err
		}
		door = false
	}
	addressWhy, err := w.addressReady(ctx)
	if err != nil {
		return err
	}
	w.g.updateStatus(func(s *GuardStatus) {
		if !s.Open {
			s.Why = why
		}
		s.AddressWhy = addressWhy
	})
	if !door && addressWhy != "" {
		return nil
	}
	return w.writeDoorAndAddress(ctx, door, addressWhy == "")
}

// writeDoorAndAddress proves leadership and writes door and address.
func (w *watch) writeDoorAndAddress(ctx context.Context, door, address bool) error {
	l := w.g.o.Length
	if door && !w.door.open { // the proof, which comes later, allows to open with what is put now
		arming, end := context.WithTimeout(ctx, l)
		err := w.g.o.Lease.Arm(arming, l)
		end()
		if err != nil {
			return fmt.Errorf("arm the lease: %w", err)
		}
	}
	if address = address && w.armAddress(ctx); !door && !address {
		return nil
	}
	t0 := w.proofFrom(door, address)
	limited, cancel := context.WithTimeout(ctx, l)
	defer cancel()
	if err := w.a.Confirm(limited, t0); err != nil {
		return fmt.Errorf("leadership could not be proven: %w", err)
	}
	if door {
		if err := w.swapLease(limited, l); err != nil {
			return err
		}
	}
	if address {
		return w.writeAddress(limited, t0)
	}
	return nil
}

// swapLease opens the door or keeps it open. A lease that had ended is opened again in
// the next turn.
func (w *watch) swapLease(ctx context.Context, l time.Duration) error {
	before, opens := time.Now(), !w.door.open
	err := w.door.swap(ctx, w.g.o.Lease, l)
	if errors.Is(err, ErrLapsed) {
		w.g.updateStatus(func(s *GuardStatus) { s.Open, s.Why = false, "the lease had lapsed"; s.Lapses++ })
		w.g.o.Logger.Info("PXE lease lapsed before its renewal; the PXE service opens again with a new proof")
		return nil
	}
	if err != nil {
		return fmt.Errorf("swap the lease: %w", err)
	}
	if opens {
		w.g.o.Logger.Info("PXE service opened", "token", w.a.Token(), "after",
			time.Since(w.others.began).Round(time.Millisecond))
	}
	w.g.updateStatus(func(s *GuardStatus) { s.Open, s.Why, s.LastHold = true, "", before; s.Swaps++ })
	return nil
}

// whyShut says why the door must stay shut for the time being, "" if it may open.
func (w *watch) whyShut(ctx context.Context) (why string, err error) {
	v, _ := w.g.o.Log.Changed()
	if !covers(v, w.a.Token()) {
		return "this peer's state is older than its leadership", nil
	}
	if _, pulled := v.Pull(); !pulled {
		return "Ironic's ports were never listed completely", nil
	}
	lists, _ := w.g.o.Lists.State()
	switch {
	case w.counted && lists.Drift != w.drift:
		return "", fmt.Errorf("%w while this peer led", ErrForeign)
	case lists.Err != nil:
		return fmt.Sprintf("the rules are not programmed: %v", lists.Err), nil
	case lists.Token != w.a.Token():
		return "the rules are not those of this leadership yet", nil
	}
	w.drift, w.counted = lists.Drift, true
	if w.recorded {
		return "", nil
	}
	if why := w.unheardFormerMembers(v); why != "" {
		return why, nil
	}
	wait := w.g.o.passWait()
	left, proven := w.mustWait(v, v.PassDoor(), wait)
	if left > 0 {
		w.wakeIn(left)
		return fmt.Sprintf("another host may have it open for %v more", left.Round(time.Millisecond)), nil
	}
	w.recorded, err = w.recordDoor(ctx, doors.PassOpen{Wait: wait, Proven: proven})
	return "", err
}

// recordDoor commits what this token does: that it opens, before it does, and that
// it has shut.
func (w *watch) recordDoor(ctx context.Context, c fsm.Command) (bool, error) {
	if err := commit(ctx, w.a, c); err != nil {
		return false, fmt.Errorf("record it in the log: %w", err)
	}
	return true, nil
}

// endLease ends the lease at once; the kernel ends it by itself if that fails.
func (w *watch) endLease(why string) (shut bool) {
	ctx, cancel := context.WithTimeout(context.Background(), shutLimit)
	defer cancel()
	err := w.g.o.Lease.Shut(ctx)
	if err != nil {
		w.g.failing.Error("close PXE service failed; the kernel closes it when its lease ends", "lease", w.g.o.Length, "err",
			err)
	}
	if w.door.open {
		w.g.o.Logger.Info("PXE service closed", "token", w.a.Token(), "reason", why)
	}
	w.door.open = false
	w.g.updateStatus(func(s *GuardStatus) { s.Open, s.Why = false, why })
	return err == nil
}

// closeDoor shuts the door and drops the address, before anything is reported.
func (w *watch) closeDoor(why string) (closed bool) {
	shut := w.endLease(why)
	return w.dropAddress(why) && shut
}

// recordRebuilt is for a leader whose rules another program changed. Once they are
// rebuilt and read back it records in the log that the door is shut, so that the
// next leader need not wait.
func (w *watch) recordRebuilt(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, rebuildLimit)
	defer cancel()
	for {
		lists, changed := w.g.o.Lists.State()
		if lists.Err == nil && lists.Drift != w.drift {
			w.recordClosed(ctx, w.closeDoor("another program changed the rules"))
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// stopAndRecord closes for good and records that in the log, then waits for the end of this
// leadership without doing anything more.
func (w *watch) stopAndRecord(ctx context.Context, why string) error {
	w.recordClosed(ctx, w.closeDoor(why))
	close(w.handOver.done)
	select {
	case <-w.g.stop:
	case <-ctx.Done():
		return nil
	}
	w.g.stoppedOnce.Do(func() { close(w.g.stopped) })
	<-ctx.Done()
	return nil
}

// recordClosed records in the log that what this token opened is shut, if the kernel
// confirmed it. In any case this token never opens again.
func (w *watch) recordClosed(ctx context.Context, closed bool) {
	var commands []fsm.Command
	if closed && w.recorded {
		commands = append(commands, doors.PassClosed{})
	}
	if closed && w.taken {
		commands = append(commands, doors.AddressReleased{})
	}
	errs := make([]error, len(commands))
	var said sync.WaitGroup
	for i, record := range commands { // both at once: PXE is closed on every host until both are recorded
		said.Go(func() { _, errs[i] = w.recordDoor(ctx, record) })
	}
	said.Wait()
	if err := errors.Join(errs...); err != nil {
		w.g.o.Logger.Info("record PXE service closed failed: next leader waits the full lease", "err", err)
	}
}
