package receivers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/api/events"
	"github.com/trivet-ha/trivet/fsm/deliveries"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// Pauses between the tries of one delivery.
const (
	firstPause = time.Second
	mostPause  = time.Minute

	confirmLimit = 5 * time.Second // of the proof before each try
)

// errOldRelease is why nothing is delivered while a member cannot read the notes.
var errOldRelease = errors.New("a member of the cluster does not know deliveries yet: upgrade it")

// Log is the replicated state as this peer has applied it.
type Log = events.Log

// Deliverer sends events to receivers while this peer leads. Its methods may be called
// concurrently.
type Deliverer struct {
	failing *slog.Logger

	mu        sync.Mutex
	receivers []*Receiver
	changed   chan struct{} // closed, and replaced, by Set
	states    map[string]*State
}

// New returns a deliverer without receivers.
func New(log *slog.Logger) *Deliverer {
	return &Deliverer{failing: logs.Limit(log), changed: make(chan struct{}), states: make(map[string]*State)}
}

// Set replaces the receivers.
func (d *Deliverer) Set(receivers []*Receiver) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.receivers = receivers
	states := make(map[string]*State, len(receivers))
	for _, r := range receivers {
		if states[r.name] = d.states[r.name]; states[r.name] == nil {
			states[r.name] = &State{Receiver: r.name}
		}
	}
	d.states = states
	close(d.changed)
	d.changed = make(chan struct{})
}

// Receivers returns the receivers, and a channel that is closed when there are others.
func (d *Deliverer) Receivers() ([]*Receiver, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.receivers, d.changed
}

// Duty makes the duty of the peer that has applied log.
func (d *Deliverer) Duty(log Log) leader.Duty { return duty{d, log} }

type duty struct {
	*Deliverer
	log Log
}

// Name implements leader.Duty.
func (duty) Name() string { return "event deliveries" }

// Run implements leader.Duty.
func (d duty) Run(ctx context.Context, a leader.Authority) error {
	defer d.clear()
	for ctx.Err() == nil {
		receivers, changed := d.Receivers()
		d.serve(ctx, a, receivers, changed)
	}
	return nil
}

// serve delivers to receivers until there are others, or ctx ends.
func (d duty) serve(ctx context.Context, a leader.Authority, receivers []*Receiver, changed <-chan struct{}) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var names []string
	for _, r := range receivers {
		names = append(names, r.name)
	}
	var work sync.WaitGroup
	defer work.Wait()
	n := &notes{log: d.log, failing: d.failing, names: names, wake: make(chan struct{}, 1),
		waiting: make(map[string]deliveries.Progress), written: make(chan struct{})}
	work.Go(func() { n.run(ctx, a) })
	for _, r := range receivers {
		c := courier{duty: d, receiver: r, notes: n, authority: a}
		work.Go(func() { c.run(ctx) })
	}
	select {
	case <-changed:
	case <-ctx.Done():
	}
	stop()
}

// courier delivers to one receiver. It belongs to one goroutine.
type courier struct {
	duty
	receiver  *Receiver
	notes     *notes
	authority leader.Authority
	progress  deliveries.Progress
}

func (c *courier) run(ctx context.Context) {
	defer c.receiver.close()
	if !c.begin(ctx) {
		return
	}
	for ctx.Err() == nil {
		view, changed := c.log.Changed()
		next, passed, ok := c.receiver.nextDelivery(view, c.progress)
		if !ok {
			c.pass(passed)
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		c.changeState(func(s *State) { s.Oldest = next.oldest })
		if next.until != c.progress.Until {
			c.progress.Until = next.until
			if !c.notes.commit(ctx, c.progress) {
				return
			}
		}
		if err := c.send(ctx, next); err != nil {
			return // ctx has ended: all else is tried again
		}
		c.progress = deliveries.Progress{Receiver: c.receiver.name, Taken: next.until}
		c.notes.put(c.progress, true)
	}
}

// begin finds where the receiver stands: one that is new is sent what happens from now on.
func (c *courier) begin(ctx context.Context) bool {
	for ctx.Err() == nil {
		view, changed := c.log.Changed()
		if view.Admits(deliveries.Note{}) == nil {
			var known bool
			if c.progress, known = view.Delivered(c.receiver.name); known {
				return true
			}
			c.progress = deliveries.Progress{Receiver: c.receiver.name, Taken: view.Events().Last()}
			return c.notes.commit(ctx, c.progress)
		}
		c.changeState(func(s *State) { s.Err = errOldRelease })
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return false
}

// pass goes beyond events that the receiver does not want.
func (c *courier) pass(to eventring.ID) {
	c.changeState(func(s *State) { s.Oldest, s.Err = 0, nil })
	if to.Compare(c.progress.Taken) > 0 {
		c.progress.Taken, c.progress.Until = to, eventring.ID{}
		c.notes.put(c.progress, false)
	}
}

// send repeats one delivery until it is taken. Before each try the leadership is proven: a
// leader that was paused sends nothing that its successor has sent long ago.
func (c *courier) send(ctx context.Context, next delivery) error {
	retry := pace.Retry{Pause: firstPause, Most: mostPause, Wish: wish, Log: c.failing, Level: slog.LevelWarn,
		Call: "deliver events to receiver " + c.receiver.name}
	return retry.Do(ctx, func(ctx context.Context, _ int) (again bool, err error) {
		proving, cancel := context.WithTimeout(ctx, confirmLimit)
		defer cancel()
		outcome := OutcomeUnreachable
		if err = c.authority.Confirm(proving, time.Now()); err == nil {
			err = c.receiver.post(ctx, next.id, next.body)
		} else {
			outcome = OutcomeUnproven
		}
		_, answered := errors.AsType[*answerError](err)
		switch {
		case err == nil:
			outcome = OutcomeTaken
		case answered:
			outcome = OutcomeRefused
		}
		c.changeState(func(s *State) { s.count(outcome, err, next) })
		return true, err
	})
}

// changeState changes what is known of the receiver.
func (c *courier) changeState(change func(*State)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.states[c.receiver.name]; s != nil { // else it was taken out
		change(s)
	}
}

// Outcomes of tries.
const (
	OutcomeTaken       = "taken"
	OutcomeRefused     = "refused"     // an answer that is not 200 to 299
	OutcomeUnreachable = "unreachable" // no answer, or a secret that cannot be read
	OutcomeUnproven    = "unproven"    // nothing was sent: leadership could not be proven
)

// Outcomes lists them.
func Outcomes() []string {
	return []string{OutcomeTaken, OutcomeRefused, OutcomeUnreachable, OutcomeUnproven}
}

// State is what this peer knows of one receiver.
type State struct {
	Receiver string
	Counts   [4]uint64 // of Outcomes, since the start of the peer
	Gaps     uint64    // deliveries that told of events that are gone
	Oldest   int64     // wall clock of the oldest event that it has not taken, Unix ms; 0: there is none
	Err      error     // why the last try failed; nil: it did not
}

func (s *State) count(outcome string, err error, d delivery) {
	for i, name := range Outcomes() {
		if name == outcome {
			s.Counts[i]++
		}
	}
	s.Err = err
	if err == nil {
		s.Oldest = 0
		if d.gap {
			s.Gaps++
		}
	}
}

// States returns what this peer knows of all receivers, in the order of the configuration.
// A peer that does not lead knows of none that is behind.
func (d *Deliverer) States() (out []State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.receivers {
		out = append(out, *d.states[r.name])
	}
	return out
}

// clear forgets what only a leader knows.
func (d *Deliverer) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.states { // order-free: each by itself
		s.Oldest, s.Err = 0, nil
	}
}
