// Package deliveries holds how far each receiver of events has them, so that the next
// leader goes on where the last one stopped (docs/events.md).
//
// The command: [Note] of the leader.
package deliveries

import (
	"cmp"
	"fmt"
	"math"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Domain is all that the log, snapshots and Check know of it.
var Domain = entry.Domain[Txn]{
	Verbs: []entry.Verb[Txn]{entry.NewVerb[Txn, Note](99, "note deliveries").ByLeader().From(3)},
	Sections: []entry.Section[Txn]{
		entry.Many('W', "deliveries", func(t Txn) table.Of[Progress] { return t.progress },
			func(t Txn, p Progress) { t.progress.Put([]byte(p.Receiver), p) }),
	},
	Checks: entry.Checks[Txn]{check},
}

// Tables are the progress of receivers by their names.
type Tables struct{ progress table.Of[Progress] }

// Txn is one entry at work on it.
type Txn struct {
	*entry.Txn
	*Tables
}

// Bounds.
const (
	// MaxReceivers is how many receivers are remembered: those of the configuration, and
	// some that it named before, so that one that is named again misses nothing.
	MaxReceivers = 32

	maxName = 32
)

// Progress is how far one receiver has the events.
type Progress struct {
	Receiver string `cbor:"1,keyasint"`
	// Taken is the place up to which the receiver has taken the events that it wants.
	Taken eventring.ID `cbor:"2,keyasint"`
	// Until is where the delivery ends that may be on its way: a repeat by another leader
	// ends there too, and so is the same delivery. Zero: none is on its way.
	Until eventring.ID `cbor:"3,keyasint,omitzero"`
	// Cut says that the cluster was founded again since Taken: events after it may be gone.
	Cut bool `cbor:"4,keyasint,omitempty"`
}

func (p Progress) validate() error {
	if err := valid.Word("receiver", p.Receiver, 1, maxName, func(b byte) bool {
		return 'a' <= b && b <= 'z' || '0' <= b && b <= '9' || b == '-'
	}); err != nil {
		return err
	}
	if !p.Until.IsZero() && p.Until.Compare(p.Taken) <= 0 {
		return fmt.Errorf("receiver %s: a delivery that ends with event %v, which was taken", p.Receiver, p.Until)
	}
	return nil
}

// Note records how far receivers have the events. Those of Forget are forgotten first.
type Note struct {
	Receivers []Progress `cbor:"1,keyasint"`
	Forget    []string   `cbor:"2,keyasint,omitempty"`
}

// Validate implements Command.
func (c Note) Validate() error {
	if n := len(c.Receivers); n < 1 || n > MaxReceivers || len(c.Forget) > MaxReceivers {
		return fmt.Errorf("%d receivers are noted and %d forgotten, allowed are 1 to %d", n, len(c.Forget), MaxReceivers)
	}
	return cmp.Or(valid.Each(c.Receivers, Progress.validate), valid.Each(c.Forget, func(name string) error {
		return valid.Length("receiver", name, 1, maxName)
	}))
}

// Apply implements entry.Change.
func (c Note) Apply(t Txn) entry.Result {
	for _, name := range c.Forget {
		t.progress.Drop([]byte(name))
	}
	for _, p := range c.Receivers {
		before, known := t.progress.Get([]byte(p.Receiver))
		switch {
		case !known && t.progress.Size() >= MaxReceivers:
			return entry.Refuse(entry.TableFull, "%d receivers of events are known, which is the most", MaxReceivers)
		case p.Taken.Compare(before.Taken) < 0:
			return entry.Refuse(entry.Conflict, "receiver %s has taken the events up to %v already", p.Receiver, before.Taken)
		case p.Taken.Compare(t.end()) > 0:
			return entry.Refuse(entry.Invalid, "receiver %s cannot have taken event %v, which is to come", p.Receiver, p.Taken)
		case p.Until.Compare(t.end()) > 0:
			return entry.Refuse(entry.Invalid, "event %v of a delivery to %s is to come", p.Until, p.Receiver)
		}
		t.progress.Put([]byte(p.Receiver), p)
	}
	return entry.Done()
}

// end is an ID that no event is above.
func (t Txn) end() eventring.ID {
	return eventring.ID{Incarnation: t.Cluster.Incarnation, Index: t.Position.Index, Seq: math.MaxUint32}
}

// Doubt notes at a founding that what was to come of the old history is gone, and that
// what was on its way may have another end now.
func (t Txn) Doubt() {
	for key, p := range t.progress.All() {
		p.Until, p.Cut = eventring.ID{}, true
		t.progress.Put(key, p)
	}
}

// Restart forgets how far receivers have the events where IDs begin again: the next event is new
// to each, and what was before it is told as a gap.
func (t Txn) Restart() {
	for key, p := range t.progress.All() {
		t.progress.Put(key, Progress{Receiver: p.Receiver, Cut: true})
	}
}

// Delivered returns how far a receiver has the events.
func (s *Tables) Delivered(receiver string) (Progress, bool) { return s.progress.Get([]byte(receiver)) }

// Deliveries returns the progress of all receivers that are remembered, by name.
func (s *Tables) Deliveries() []Progress { return table.List(s.progress.All()) }

func check(t Txn, p *valid.Problems) {
	p.Want(t.progress.Size() <= MaxReceivers, "%d receivers of events are known", t.progress.Size())
	for key, r := range t.progress.All() {
		p.Invalid(r.validate(), "deliveries: ")
		p.Want(string(key) == r.Receiver, "receiver %s is filed under %q", r.Receiver, key)
		p.Want(r.Taken.Compare(t.end()) <= 0 && r.Until.Compare(t.end()) <= 0,
			"receiver %s has events up to %v and %v, which are to come", r.Receiver, r.Taken, r.Until)
	}
}
