package failover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// hand is one leadership of one peer, and the only way by which its controller
// reaches the world: at any of its deeds it can be killed or stopped, before the
// deed or between the deed and its answer.
type hand struct {
	w       *world
	name    string
	token   fencing.Token
	end     context.CancelFunc
	running sync.WaitGroup
	c       *Controller

	mu     sync.Mutex
	over   bool // it was ended; guarded by the world
	deeds  []string
	asked  []string // UUIDs with which the power of a machine was read
	told   []string // whose UUID the machine shares, at each reading
	at     int      // the deed to stop at, counted from 1; 0 none
	how    stop
	met    chan struct{} // closed when it was reached
	frozen chan struct{} // closed when it goes on; nil if it does
	seen   fsm.View      // while it is frozen
}

type stop int

const (
	killBefore stop = iota
	killAfter
	pauseBefore
	pauseAfter
)

func (s stop) String() string {
	return [...]string{"killed before", "killed after", "stopped before", "stopped after"}[s]
}

var (
	_ Cluster          = (*hand)(nil)
	_ Fences           = (*hand)(nil)
	_ KubeletProber    = (*hand)(nil)
	_ Log              = (*hand)(nil)
	_ leader.Authority = (*hand)(nil)
)

// safe are the settings of most tests.
func safe() Settings {
	s := defaultSettings()
	s.Mode = ModeSafe
	return s
}

// lead lets a peer lead, under settings.
func (w *world) lead(peer string, s Settings, at int, how stop) *hand {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h := &hand{w: w, name: peer, at: at, how: how, met: make(chan struct{})}
	h.end = func() {
		w.with(func() { h.over = true })
		cancel()
	}
	h.token = w.ledger.must(fsm.Lead{Peer: "id-" + peer, Boot: fmt.Sprintf("boot-%d", time.Now().UnixNano())}).Token
	o := ControllerOptions{
		Self: "id-" + peer, Peer: peer, Log: h, Clusters: []Cluster{h}, Fences: h, KubeletProber: h, Finder: peersElsewhere{},
		Settings: s, Wall: time.Now,
		Logger: slog.New(slog.DiscardHandler), Report: func(e eventring.Report) {
			w.with(func() { w.reports = append(w.reports, e.Text) })
		},
	}
	switch {
	case w.unnamed:
		o.Clusters = nil
	case s.Mode == ModeOff:
		o.Clusters, o.Left = nil, []LeftCluster{{Name: "k", Open: func() (Cluster, func(), error) {
			w.with(func() { w.opened = append(w.opened, true) })
			return h, func() { w.with(func() { w.opened = append(w.opened, false) }) }, nil
		}}}
	}
	h.c = NewController(o)
	w.hands = append(w.hands, h)
	h.running.Go(func() {
		if err := h.c.Run(ctx, h); err != nil {
			w.t.Error(err)
		}
	})
	return h
}

// leave ends a leadership and waits for its duty.
func (h *hand) leave() {
	h.end()
	h.running.Wait()
}

// thaw lets a peer go on that was stopped. It learns a moment later that it leads
// no more.
func (h *hand) thaw() {
	h.mu.Lock()
	close(h.frozen)
	h.frozen = nil
	h.mu.Unlock()
	h.w.pass(300 * time.Millisecond)
}

func (h *hand) stopped() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.frozen != nil
}

// stands waits while the peer is stopped.
func (h *hand) stands() {
	h.mu.Lock()
	frozen := h.frozen
	h.mu.Unlock()
	if frozen != nil {
		<-frozen // in a bubble
	}
}

// do is one deed, which takes a moment.
func (h *hand) do(ctx context.Context, what string, deed func() error) error {
	h.stands()
	h.mu.Lock()
	h.deeds = append(h.deeds, what)
	now := len(h.deeds) == h.at
	h.mu.Unlock()
	if now && (h.how == killBefore || h.how == pauseBefore) {
		if err := h.stop(); err != nil {
			return err
		}
	}
	pace.Wait(context.Background(), 3*time.Millisecond)
	var err error
	h.w.with(func() { err = deed() })
	if now && (h.how == killAfter || h.how == pauseAfter) {
		if err := h.stop(); err != nil {
			return err
		}
	}
	if err == nil {
		h.w.happened(what)
	}
	pace.Wait(context.Background(), 3*time.Millisecond)
	h.stands()
	if ctx.Err() != nil && err == nil && h.how <= killAfter {
		return ctx.Err()
	}
	return err
}

// stop kills or stops the peer, at the deed that is under way.
func (h *hand) stop() error {
	h.mu.Lock()
	if h.how <= killAfter {
		h.mu.Unlock()
		h.end()
		close(h.met)
		return context.Canceled
	}
	h.seen = h.w.ledger.view()
	h.frozen = make(chan struct{})
	frozen := h.frozen
	h.mu.Unlock()
	close(h.met)
	<-frozen // in a bubble
	return nil
}

// Changed implements Log. A stopped peer learns nothing.
func (h *hand) Changed() (fsm.View, <-chan struct{}) {
	h.mu.Lock()
	frozen := h.frozen
	h.mu.Unlock()
	if frozen != nil {
		return h.seen, frozen
	}
	return h.w.ledger.Changed()
}

// Token implements leader.Authority.
func (h *hand) Token() fencing.Token { return h.token }

// Propose implements leader.Authority.
func (h *hand) Propose(ctx context.Context, c fsm.Command) (res fsm.Result, err error) {
	commit := func() error {
		res = h.w.ledger.do(fsm.Header{Token: h.token}, c)
		return nil
	}
	switch step := c.(type) {
	case kubestate.BeginRemediation:
		err = h.do(ctx, "begin", commit)
	case kubestate.StepRemediation:
		err = h.do(ctx, "to "+step.To.String(), commit)
	default:
		h.stands()
		pace.Wait(ctx, time.Millisecond)
		err = commit()
	}
	return res, err
}

// Confirm implements leader.Authority.
func (h *hand) Confirm(ctx context.Context, _ time.Time) error {
	h.stands()
	leads := h.w.ledger.view().Leadership().Token == h.token
	pace.Wait(ctx, 2*time.Millisecond)
	h.w.happened("confirm")
	h.stands()
	if !leads {
		return errors.New("another peer leads")
	}
	return ctx.Err()
}

// Succeeds implements leader.Authority.
func (*hand) Succeeds(uint64, uint64) (time.Time, bool) { return time.Time{}, false }

// Configured implements leader.Authority.
func (*hand) Configured() uint64 { return 0 }

// Knock implements KubeletProber.
func (h *hand) Knock(ctx context.Context, target string) (heard Heard) {
	_ = h.do(ctx, "knock", func() error {
		for _, p := range h.w.pcs {
			if p.name+":10250" == target && !p.slow {
				heard = p.heard()
			}
		}
		return nil
	})
	if heard == HeardNothing {
		<-ctx.Done()
	}
	return heard
}

// For implements Fences.
func (h *hand) For(m Machine) []Device {
	if h.w.strips != nil {
		all := []Device{group{strip{h, "strip-a", m.Node}, strip{h, "strip-b", m.Node}}}
		if h.w.strips.bmcs {
			all = append(all, bmc{h, "pdu", m.Node})
		}
		return all
	}
	now := ""
	h.w.with(func() {
		if h.w.trouble.renamed {
			now = " of now"
		}
	})
	return []Device{bmc{h, "bmc" + now, m.Node}, bmc{h, "pdu" + now, m.Node}}
}

// bmc is a device of a machine. The first one does what the machine's fault says,
// the second always works unless the fault is of both.
type bmc struct {
	h          *hand
	name, node string
}

// Faults of the devices.
const (
	deviceLies   = "lies"        // says off, and does nothing
	deviceHangs  = "hangs"       // never answers
	deviceCannot = "cannot"      // does not support it
	bothCannot   = "both cannot" // nor does the second
	deviceLate   = "late"        // takes the command, and 5 s to obey
	deviceBlinks = "blinks"      // says off once too early
	deviceAway   = "away"        // each command is tried until it is back
	// deviceLiesLate lies, and takes 3 s for each answer.
	deviceLiesLate = "lies late"
	deviceSaysOff  = "says off" // of another machine, from the beginning
	// deviceRemembers says off from memory when it is only asked, of a machine that was
	// switched on since.
	deviceRemembers = "remembers"
	deviceLogin     = "login"  // it refuses that of each call, as does the second
	deviceInUse     = "in use" // it knows for what the machine is used; the second does not
)

// Name implements Device.
func (b bmc) Name() string { return b.name }

func (b bmc) fails(ctx context.Context) error {
	var fault string
	b.h.w.with(func() { fault = b.h.w.pcs[b.node].fault })
	switch {
	case fault == bothCannot, fault == deviceCannot && b.name == "bmc":
		return errors.New("not supported in present state")
	case fault == deviceLogin:
		return fmt.Errorf("GET: 401: %w", ErrLogin)
	case fault == deviceAway:
		for fault == deviceAway {
			if !pace.Wait(ctx, time.Second) {
				return ctx.Err()
			}
			b.h.w.with(func() { fault = b.h.w.pcs[b.node].fault })
		}
	case fault == deviceHangs && b.name == "bmc":
		pace.Wait(ctx, 20*time.Second)
		return fmt.Errorf("no answer: %w", context.DeadlineExceeded)
	case fault == deviceLiesLate:
		pace.Wait(ctx, 3*time.Second)
	}
	return nil
}

// Power implements Device.
func (b bmc) Power(ctx context.Context, m Machine) (p Power, err error) {
	b.h.mu.Lock()
	b.h.asked, b.h.told = append(b.h.asked, m.SystemUUID), append(b.h.told, m.SharedWith)
	b.h.mu.Unlock()
	err = b.h.do(ctx, "read power", func() error {
		c := b.h.w.pcs[b.node]
		off := !c.on
		switch {
		case (c.fault == deviceLies || c.fault == deviceLiesLate) && c.offs > 0, c.fault == deviceSaysOff,
			c.fault == deviceRemembers && m.AskOnly:
			off = true
		case c.fault == deviceBlinks && len(c.reads) == 0:
			off = true
		}
		c.reads = append(c.reads, reading{time.Now(), off, c.alive()})
		switch {
		case c.mumbles:
			p = PowerUnknown
		case off:
			p = PowerOff
		default:
			p = PowerOn
		}
		return nil
	})
	if err == nil {
		err = b.fails(ctx)
	}
	return p, err
}

// Asks implements Asker.
func (b bmc) Asks() (yes bool) {
	b.h.w.with(func() { yes = b.h.w.pcs[b.node].fault != deviceRemembers })
	return yes
}

// Off implements Device.
func (b bmc) Off(ctx context.Context, _ Machine) error {
	used := false
	b.h.w.with(func() { used = b.name == "bmc" && b.h.w.pcs[b.node].fault == deviceInUse })
	if used {
		return fmt.Errorf("bmc: %w", InUse{"it is introspected"})
	}
	if err := b.fails(ctx); err != nil {
		return err
	}
	return b.h.do(ctx, "switch off", func() error {
		c := b.h.w.pcs[b.node]
		c.offs++
		c.reads = nil
		b.h.w.note(b.h, "off", b.node, "")
		switch c.fault {
		case deviceLies, deviceLiesLate, deviceSaysOff:
		case deviceLate, deviceBlinks:
			b.h.w.bg.Go(func() {
				b.h.w.pass(5 * time.Second)
				b.h.w.cutPower(b.node)
			})
		default:
			c.powerOff()
		}
		return nil
	})
}

// On implements Device.
func (b bmc) On(ctx context.Context, _ Machine) error {
	if err := b.fails(ctx); err != nil {
		return err
	}
	return b.h.do(ctx, "switch on", func() error {
		b.h.w.note(b.h, "on", b.node, "")
		if c := b.h.w.pcs[b.node]; c.deafToOn > 0 {
			if c.deafToOn--; c.deafToOn%2 == 0 {
				return nil // taken, and without effect
			}
			return errors.New("the BMC restarts")
		}
		b.h.w.pcs[b.node].powerOn()
		return nil
	})
}

// after has something happen right after a deed of that name was done, once.
func (w *world) after(what string, f func()) {
	w.with(func() { w.hooks[what] = f })
}

func (w *world) happened(what string) {
	w.mu.Lock()
	f := w.hooks[what]
	delete(w.hooks, what)
	w.mu.Unlock()
	if f != nil {
		f()
	}
}

// note writes into the audit log.
func (w *world) note(h *hand, verb, what, uid string) {
	w.audit = append(w.audit, deed{time.Now(), uint64(h.token), verb, what, uid})
}

// count returns how often a verb was used on something, "" anything.
func (w *world) count(verb, what string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.audit {
		if d.verb == verb && (what == "" || d.what == what) {
			n++
		}
	}
	return n
}

// order reports whether the first use of each verb on a node came after that of the
// one before.
func (w *world) order(node string, verbs ...string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := -1
	for _, verb := range verbs {
		i := slices.IndexFunc(w.audit, func(d deed) bool { return d.verb == verb && d.what == node })
		if i <= at {
			return false
		}
		at = i
	}
	return true
}
