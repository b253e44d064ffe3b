// Package relays holds the documents of ramdisks that are handed on to Ironic.
//
// The commands: [Accept], [Introduced], [Try] and [Settle].
package relays

import (
	"cmp"
	"iter"
	"time"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/codec"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
)

// Domain is all that the log, snapshots, Check and deadlines know of relays.
var Domain = entry.Domain[Txn]{
	Verbs: []entry.Verb[Txn]{
		entry.NewVerb[Txn, Accept](90, "accept relay").From(2),
		entry.NewVerb[Txn, Try](91, "try relay").ByLeader().From(2),
		entry.NewVerb[Txn, Settle](92, "settle relay").ByLeader().From(2),
		entry.NewVerb[Txn, Introduced](93, "introduce relay").From(3),
	},
	Sections: []entry.Section[Txn]{
		entry.Many('x', "relays", func(t Txn) table.Of[Relay] { return t.bySequence }, Txn.indexRelay),
	},
	Checks: entry.Checks[Txn]{checkRelays},
	Ends: []entry.Ending[Txn]{
		entry.Expiring(dueRelay, func(t Txn) table.Of[Relay] { return t.bySequence },
			func(r Relay) (entry.Time, bool) { return r.Expires, r.State != Pending },
			func(t Txn, id []byte) { t.expireRelay(table.TailToken(id)) }),
	},
}

// dueRelay is the class of the deadlines that end the time that a relay is kept.
const dueRelay entry.Class = 'r'

// Tables hold the documents that are handed on.
type Tables struct {
	bySequence table.Of[Relay]
	pending    table.Of[table.None] // sequence
	byDocument table.Of[table.None] // document, sequence
	byNode     table.Of[table.None] // node, sequence; those whose node is known
	ended      table.Of[table.None] // share, sequence; see relayShare
	failed     table.Of[table.None] // the same, of those that Ironic did not take
	used       table.Of[relayUse]   // by share; a document counts as often as it is handed on
}

// Txn is one entry at work on the tables of relays, and on the documents that these
// refer to.
type Txn struct {
	*entry.Txn
	*Tables
	Blobs *blobs.Store
}

// Bounds of relays.
const (
	// MaxRelays is the greatest number of documents that are kept of what Ironic
	// is handed on, those it has taken included. When there is no room the oldest
	// of these goes.
	MaxRelays = 10_000
	// MaxBytes is the greatest length of those documents together, compressed.
	MaxBytes = 256 << 20
	// MaxTime is the longest time that a document may be tried.
	MaxTime = 7 * 24 * time.Hour
	// MaxKeep is the longest time a document is kept after its relay ended.
	MaxKeep = 7 * 24 * time.Hour
	// Repeat is for how long after its acceptance a document that comes again
	// is the same one, also when its relay has ended: a ramdisk repeats itself for
	// 63 seconds at most, of which it waits 28. Later it is of another inspection, which
	// needs it again. Before, it is of another one if Ironic waits again: see Accept.After.
	Repeat = time.Minute
	// AbsentTimeout is for how long Ironic may say that it does not wait for a
	// document, which may be for a moment only, before that is its last word.
	AbsentTimeout = 30 * time.Second

	maxRelayReason = 5 << 10
)

// State is where a document stands that is handed on to Ironic. The
// numbers are part of the log.
type State uint8

// The states of a relay.
const (
	Pending State = 1
	Taken   State = 2 // Ironic has it
	Failed  State = 3 // Ironic refused it, or it was too late
)

var relayStates = [...]string{"", "pending", "taken", "failed"}

// String returns the state in words.
func (s State) String() string { return codec.NameOf(relayStates[:], "relay state", uint8(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Outcome is how an attempt to hand a document on ended. The numbers are
// part of the log.
type Outcome uint8

// The outcomes of an attempt.
const (
	OutcomeTaken   Outcome = 1 // Ironic said yes
	OutcomeRefused Outcome = 2 // Ironic said no, for good
	OutcomeAbsent  Outcome = 3 // Ironic knows no node that waits for it: 404
	OutcomeAgain   Outcome = 4 // it has not reached Ironic, or was sent away
	OutcomeLost    Outcome = 5 // the answer is not known: Ironic may have it
	OutcomeGiveUp  Outcome = 6 // no attempt: the time is over
)

// Relay is a ramdisk's document on its way to Ironic.
type Relay struct {
	Sequence fencing.Token `cbor:"1,keyasint"`           // token of the entry that accepted it
	Node     string        `cbor:"2,keyasint,omitempty"` // the node that the sender named; "" if not known
	Document blobs.Hash    `cbor:"3,keyasint"`
	State    State         `cbor:"4,keyasint"`
	// Tries counts the attempts. Open says that the last one has begun and is not
	// settled, Doubt that the answer to an earlier one was lost.
	Tries int  `cbor:"5,keyasint,omitempty"`
	Open  bool `cbor:"6,keyasint,omitempty"`
	Doubt bool `cbor:"7,keyasint,omitempty"`
	// Reason is what Ironic said last, or what happened instead.
	Reason string `cbor:"8,keyasint,omitempty"`
	// Cluster times: of acceptance; until when it is tried; since when Ironic says
	// that it does not wait, 0 while it does not; and until when an ended one is kept.
	Accepted entry.Time `cbor:"9,keyasint,omitempty"`
	Deadline entry.Time `cbor:"10,keyasint,omitempty"`
	Absent   entry.Time `cbor:"11,keyasint,omitempty"`
	Expires  entry.Time `cbor:"12,keyasint,omitempty"`
	// Wall clocks, Unix ms, for display.
	AcceptedMillis int64 `cbor:"13,keyasint,omitempty"`
	EndedMillis    int64 `cbor:"14,keyasint,omitempty"`
	Origin
}

// Origin is where a document came from. In the log it stands among the keys of the relay.
type Origin struct {
	// Source is the network that sent it, "" if that is not known.
	Source string `cbor:"15,keyasint,omitempty"`
	// After is the relay by which Ironic took the same document for an earlier
	// inspection, zero if there was none.
	After fencing.Token `cbor:"16,keyasint,omitempty"`
}

func (r Relay) documentKey() []byte {
	return append(append(make([]byte, 0, len(r.Document)+8), r.Document[:]...), table.TokenKey(r.Sequence)...)
}

// index files a relay in the orders; its document is stored.
func (t Txn) indexRelay(r Relay) {
	key := table.TokenKey(r.Sequence)
	t.bySequence.Put(key, r)
	t.byDocument.Put(r.documentKey(), table.None{})
	if r.Node != "" {
		t.byNode.Put(table.NameKey(r.Node, r.Sequence), table.None{})
	}
	if r.State == Pending {
		t.pending.Put(key, table.None{})
	} else {
		t.Arm(r.Expires, dueRelay, key)
	}
	t.countRelay(r, true)
}

// dropRelay removes a relay and lets its document go. Its deadline is out of the
// table, or goes with it.
func (t Txn) dropRelay(r Relay) {
	key := table.TokenKey(r.Sequence)
	t.countRelay(r, false)
	t.bySequence.Drop(key)
	t.byDocument.Drop(r.documentKey())
	t.byNode.Drop(table.NameKey(r.Node, r.Sequence))
	t.pending.Drop(key)
	t.Disarm(r.Expires, dueRelay, key)
	t.Blobs.Unref(r.Document)
}

// expireRelay ends the time that a document is kept.
func (t Txn) expireRelay(sequence fencing.Token) {
	if r, ok := t.bySequence.Get(table.TokenKey(sequence)); ok {
		t.dropRelay(r)
	}
}

// Repeated finds the relay that a document repeats, were it accepted now.
func (t Txn) Repeated(document blobs.Hash) (Relay, bool) {
	r, ok := t.newestRelay(t.byDocument, document[:])
	return r, ok && (r.State == Pending || t.Now().Sub(r.Accepted) < Repeat)
}

// newestRelay returns the last relay under a prefix of an order.
func (s *Tables) newestRelay(order table.Of[table.None], prefix []byte) (newest Relay, ok bool) {
	for key := range order.Under(prefix) {
		newest, ok = s.bySequence.Get(table.TokenKey(table.TailToken(key)))
	}
	return newest, ok
}

// endRelay ends a relay that is kept for so long.
func (t Txn) endRelay(r Relay, state State, reason string, keep time.Duration) Relay {
	r.State, r.Open, r.Reason = state, false, reason
	r.Expires, r.EndedMillis = t.Now().Add(cmp.Or(keep, MaxKeep)), t.Wall()
	return r
}

// putRelay stores a relay in the place of an older version of it.
func (t Txn) putRelay(r Relay) {
	key := table.TokenKey(r.Sequence)
	if old, _ := t.bySequence.Get(key); old.State != r.State || old.Node != r.Node {
		t.countRelay(old, false)
		t.countRelay(r, true)
	}
	t.bySequence.Put(key, r)
	if r.State != Pending {
		t.pending.Drop(key)
		t.Arm(r.Expires, dueRelay, key)
	}
}

// Doubt forgets what became of attempts: in the history that was cut off
// there may have been more of them.
func (t Txn) Doubt() {
	for key := range t.pending.All() {
		r, _ := t.bySequence.Get(key)
		r.Doubt = r.Doubt || r.Open
		r.Open = true
		t.bySequence.Put(key, r)
	}
}

// Outdate ends, in a history that goes on after it stood still, what is pending past its time by the
// wall clock: what Ironic inspects now is another inspection.
func (t Txn) Outdate(wallMillis int64) {
	for key := range t.pending.All() {
		r, _ := t.bySequence.Get(key)
		if r.AcceptedMillis+r.Deadline.Sub(r.Accepted).Milliseconds() < wallMillis {
			r = t.endRelay(r, Failed, textLate+cmp.Or(r.Reason, "no answer"), 0)
			r.EndedMillis = wallMillis
			t.putRelay(r)
		}
	}
}

// DropOverdue ends the time of those that are kept no longer, after a leap
// of cluster time that no entry made.
func (t Txn) DropOverdue() {
	for _, r := range t.bySequence.All() {
		if r.State != Pending && r.Expires <= t.Position.Now {
			t.dropRelay(r)
		}
	}
}

// Relay returns a document that is handed on to Ironic, or was.
func (s *Tables) Relay(sequence fencing.Token) (Relay, bool) {
	return s.bySequence.Get(table.TokenKey(sequence))
}

// SameRelays says that two views have the same relays. It may fail to say so.
func SameRelays(a, b *Tables) bool { return a.bySequence.Same(b.bySequence) }

// Relays iterates over all of them, the newest first.
func (s *Tables) Relays() iter.Seq[Relay] { return table.Values(s.bySequence.Descending(nil)) }

// PendingRelays iterates over those that Ironic has not taken yet, the oldest
// first. It costs what it yields.
func (s *Tables) PendingRelays() iter.Seq[Relay] {
	return table.Named(s.pending.All(), 0, s.bySequence)
}

// RelaysPending returns how many those are.
func (s *Tables) RelaysPending() int { return s.pending.Size() }

// RelaysFailed returns how many of those that are kept Ironic did not take.
func (s *Tables) RelaysFailed() (n int) {
	for _, r := range s.bySequence.All() {
		if r.State == Failed {
			n++
		}
	}
	return n
}

// RelayOf returns the newest relay of a node.
func (s *Tables) RelayOf(node string) (Relay, bool) {
	return s.newestRelay(s.byNode, []byte(node))
}

// TakenRelayOf returns the newest relay of a node that Ironic has taken. Any other may be of a
// stranger, who knows a MAC of the machine.
func (s *Tables) TakenRelayOf(node string) (newest Relay, ok bool) {
	for r := range s.RelaysOf(node) {
		if r.State == Taken {
			newest, ok = r, true
		}
	}
	return newest, ok
}

// RelaysOf iterates over a node's relays that are kept, the oldest first. node is a whole UUID.
func (s *Tables) RelaysOf(node string) iter.Seq[Relay] {
	return table.Named(s.byNode.Under([]byte(node)), len(node), s.bySequence)
}
