package relay

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// Values of handing documents on.
const (
	// relayWidth is how many are on their way at once.
	relayWidth = 8
	// relayPause is kept between two looks at what is pending.
	relayPause = 100 * time.Millisecond
	// relayFirst and relayLast are the first and the longest pause between two
	// attempts of one document; each is twice the one before.
	relayFirst = time.Second
	relayLast  = 15 * time.Second
	// relayAbsent is the pause after Ironic said that it waits for no such
	// document; it may begin to at any moment.
	relayAbsent = 2 * time.Second
	// soughtLimit is how long Ironic's lists may take to show whether it knows a machine: no ramdisk waits.
	soughtLimit = time.Minute
	// relayProof is for how long the entry that begins an attempt proves that no
	// other peer leads. Past it nothing more is sent.
	relayProof = 7 * time.Second
)

// Relayer is the leader's duty that hands documents on to Ironic until it has taken
// them. Each attempt is in the log before its first byte is sent, and so is its
// outcome: the next leader knows which answers were lost.
type Relayer struct {
	Live   *inspector.LiveSettings
	Log    inspector.Log
	Inband Ironic
	Away   func() error    // why nothing can be handed on now, nil if it can
	Search identify.Search // of the machines that the state does not know
	Packer *blobs.Packer
	Logger *slog.Logger
}

// Name implements leader.Duty.
func (*Relayer) Name() string { return "relay" }

// Run implements leader.Duty.
func (r *Relayer) Run(ctx context.Context, a leader.Authority) error {
	work := &relaying{Relayer: r, authority: a, failing: logs.Limit(r.Logger), again: make(map[fencing.Token]retry)}
	defer work.running.Wait()
	for {
		_, changed := r.Log.Changed()
		work.beginDue(ctx)
		if !pace.Wait(ctx, relayPause) { // a busy log is looked at ten times a second
			return nil
		}
		if r.Log.View().RelaysPending() > 0 {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// relaying is the work of one leadership.
type relaying struct {
	*Relayer
	authority leader.Authority
	failing   *slog.Logger // of what is tried again
	running   sync.WaitGroup

	mu    sync.Mutex
	busy  int
	again map[fencing.Token]retry
}

// retry is when a document may be tried again.
type retry struct {
	busy  bool
	tries int // in a row, under this leadership
	at    time.Time
}

// beginDue begins what is due, the oldest first, and ends what is too late.
func (w *relaying) beginDue(ctx context.Context) {
	v := w.Log.View()
	away, why := w.Away(), "it was not tried"
	if away != nil {
		why = away.Error()
	}
	w.forget(v)
	for r := range v.PendingRelays() {
		overdue := r.Deadline <= v.Now()
		if away != nil && !overdue || !w.engage(r.Sequence) {
			continue
		}
		w.running.Go(func() {
			pause := relayLast
			from, unproven := w.sender(ctx, v, r)
			switch {
			case unproven && !overdue: // no attempt, and no entry of the log
				pause = min(relayLast, r.Deadline.Sub(v.Now()))
			case overdue && !unproven:
				w.commitAttempt(ctx, r, relays.OutcomeGiveUp, inspector.Clip(cmp.Or(r.Reason, why)), "")
			default:
				pause = w.attempt(ctx, r.Sequence, from)
			}
			w.release(r.Sequence, pause)
		})
	}
}

// sender finds where a document came from. It is unproven where Ironic may have enrolled its machine, and
// shows nothing yet by which it would find it.
func (w *relaying) sender(ctx context.Context, v fsm.View, r relays.Relay) (o sender, unproven bool) {
	document, err := inspector.Load(w.Packer, v, r.Document)
	if err != nil {
		return o, false // the attempt says so
	}
	o = senderOf(ctx, w.Search, v, r, document)
	return o, (r.Open || r.Doubt) && !o.known && !o.passed
}

// engage takes a document in hand if it is due and there is room.
func (w *relaying) engage(sequence fencing.Token) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.again[sequence]
	if w.busy >= relayWidth || now.busy || time.Until(now.at) > 0 {
		return false
	}
	now.busy = true
	now.tries++
	w.busy++
	w.again[sequence] = now
	return true
}

// release puts a document back; 0 is the pause that grows.
func (w *relaying) release(sequence fencing.Token, pause time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.again[sequence]
	if pause == 0 {
		pause = min(relayFirst<<min(now.tries-1, 4), relayLast)
	}
	now.busy, now.at = false, time.Now().Add(pause)
	w.busy--
	w.again[sequence] = now
}

// forget drops the records of documents that are not pending any more.
func (w *relaying) forget(v fsm.View) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for sequence, now := range w.again {
		if r, ok := v.Relay(sequence); !now.busy && (!ok || r.State != relays.Pending) {
			delete(w.again, sequence)
		}
	}
}

// attempt hands a document over once. It returns the pause before the next, 0 for
// the one that grows.
func (w *relaying) attempt(ctx context.Context, sequence fencing.Token, from sender) time.Duration {
	begun := time.Now()
	res, err := w.authority.Propose(ctx, relays.Try{Sequence: sequence})
	if err != nil || res.Code != fsm.OK {
		return 0
	}
	var r relays.Relay
	document, err := []byte(nil), res.Decode(&r)
	if err == nil {
		document, err = inspector.Load(w.Packer, w.Log.View(), r.Document)
	}
	if err != nil {
		w.commitAttempt(ctx, r, relays.OutcomeAgain, inspector.Clip(err.Error()), "")
		return 0
	}
	if outcome, why := outdated(w.Log.View(), r, from); why != "" {
		w.commitAttempt(ctx, r, outcome, why, "")
		return 0
	}
	guarded := ironic.WithGuard(ctx, func() error {
		if time.Since(begun) > relayProof {
			return ironic.ErrNotAllowed
		}
		return nil
	})
	answer, err := w.Inband.Continue(guarded, ironic.InbandCall{Body: document})
	if ctx.Err() != nil {
		return 0 // the next leader takes it for lost
	}
	outcome, reason := outcomeOf(answer, err)
	if !from.known {
		asking, cancel := context.WithTimeout(ctx, soughtLimit)
		defer cancel()
		outcome = enrolling(asking, w.Search, from.machine, outcome, answer)
	}
	w.commitAttempt(ctx, r, outcome, reason, cmp.Or(nodeIn(answer.Body), from.node))
	if answer.Absent {
		return relayAbsent
	}
	return 0
}

// commitAttempt commits how an attempt ended. One whose end is not committed counts as
// one whose answer was lost.
func (w *relaying) commitAttempt(ctx context.Context, r relays.Relay, outcome relays.Outcome, reason, node string) {
	res, err := w.authority.Propose(ctx, relays.Settle{
		Sequence: r.Sequence, Try: r.Tries, Outcome: outcome, Reason: reason, Keep: keepRelays(w.Live.Config()), Node: node,
	})
	var now relays.Relay
	if err != nil || res.Code != fsm.OK || res.Decode(&now) != nil {
		return
	}
	log := w.Logger.With("relay", now.Sequence, "node", now.Node, "tries", now.Tries)
	switch {
	case now.State == relays.Taken:
		log.Info("relayed callback accepted by Ironic", "note", now.Reason)
	case now.State == relays.Failed:
		log.Warn("relay callback to Ironic failed, keeping its data", "reason", now.Reason)
	default:
		w.failing.Info("relay callback to Ironic failed, retrying", "node", now.Node, "relay", now.Sequence, "tries",
			now.Tries, "reason", reason)
	}
}
