package fsm

import (
	"cmp"
	"time"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/codec"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
)

var relayDomain = domain{
	Verbs: []entry.Verb[*txn]{
		entry.NewVerb(90, "accept relay", applyAcceptRelay).From(2),
		entry.NewVerb(91, "try relay", applyTryRelay).ByLeader().From(2),
		entry.NewVerb(92, "settle relay", applySettleRelay).ByLeader().From(2),
	},
	Sections: []entry.Section[*txn]{
		entry.Many('x', "relays", func(d *txn) table.Of[Relay] { return d.relays.bySequence }, func(d *txn, r Relay) { d.indexRelay(r) }),
	},
	Check: checkRelays,
	Ends: []entry.Ending[*txn]{
		{Class: dueRelay, End: func(t *txn, id []byte) { t.expireRelay(table.TailToken(id)) }, Due: func(d *txn, expect entry.Expectation) {
			for key, r := range d.relays.bySequence.All() {
				if r.State != RelayPending {
					expect(r.Expires, key)
				}
			}
		}},
	},
}

// dueRelay is the class of the deadlines that end the time that a relay is kept.
const dueRelay entry.Class = 'r'

// Bounds of relays.
const (
	// MaxRelays is the greatest number of documents that are kept of what Ironic
	// is handed on, those it has taken included. When there is no room the oldest
	// of these goes.
	MaxRelays = 10_000
	// MaxRelayBytes is the greatest length of those documents together, compressed.
	MaxRelayBytes = 256 << 20
	// MaxRelayKeep is the longest time a document is kept after its relay ended.
	MaxRelayKeep = 7 * 24 * time.Hour
	// RelayRepeat is for how long after its acceptance a document that comes again
	// is the same one, also when its relay has ended: a ramdisk repeats itself for
	// 28 seconds. Later it is of another inspection, which needs it again.
	RelayRepeat = time.Minute
	// RelayAbsentTimeout is for how long Ironic may say that it does not wait for a
	// document, which may be for a moment only, before that is its last word.
	RelayAbsentTimeout = 30 * time.Second

	maxRelayReason = 5 << 10
)

// RelayState is where a document stands that is handed on to Ironic. The
// numbers are part of the log.
type RelayState uint8

// The states of a relay.
const (
	RelayPending RelayState = 1
	RelayTaken   RelayState = 2 // Ironic has it
	RelayFailed  RelayState = 3 // Ironic refused it, or it was too late
)

var relayStates = [...]string{"", "pending", "taken", "failed"}

// String returns the state in words.
func (s RelayState) String() string { return codec.NameOf(relayStates[:], "relay state", uint8(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s RelayState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// RelayOutcome is how an attempt to hand a document on ended. The numbers are
// part of the log.
type RelayOutcome uint8

// The outcomes of an attempt.
const (
	OutcomeTaken   RelayOutcome = 1 // Ironic said yes
	OutcomeRefused RelayOutcome = 2 // Ironic said no, for good
	OutcomeAbsent  RelayOutcome = 3 // Ironic knows no node that waits for it: 404
	OutcomeAgain   RelayOutcome = 4 // it has not reached Ironic, or was sent away
	OutcomeLost    RelayOutcome = 5 // the answer is not known: Ironic may have it
	OutcomeGiveUp  RelayOutcome = 6 // no attempt: the time is over
)

// Relay is a ramdisk's document on its way to Ironic.
type Relay struct {
	Sequence fencing.Token `cbor:"1,keyasint"`           // token of the entry that accepted it
	Node     string        `cbor:"2,keyasint,omitempty"` // the node that the sender named; "" if not known
	Document blobs.Hash    `cbor:"3,keyasint"`
	State    RelayState    `cbor:"4,keyasint"`
	// Tries counts the attempts. Open says that the last one has begun and is not
	// settled, Doubt that the answer to an earlier one was lost.
	Tries int  `cbor:"5,keyasint,omitempty"`
	Open  bool `cbor:"6,keyasint,omitempty"`
	Doubt bool `cbor:"7,keyasint,omitempty"`
	// Reason is what Ironic said last, or what happened instead.
	Reason string `cbor:"8,keyasint,omitempty"`
	// Cluster times: of acceptance; until when it is tried; since when Ironic says
	// that it does not wait, 0 while it does not; and until when an ended one is kept.
	Accepted Time `cbor:"9,keyasint,omitempty"`
	Deadline Time `cbor:"10,keyasint,omitempty"`
	Absent   Time `cbor:"11,keyasint,omitempty"`
	Expires  Time `cbor:"12,keyasint,omitempty"`
	// Wall clocks, Unix ms, for display.
	AcceptedMillis int64 `cbor:"13,keyasint,omitempty"`
	EndedMillis    int64 `cbor:"14,keyasint,omitempty"`
	// Source is the network that sent it, "" if that is not known.
	Source string `cbor:"15,keyasint,omitempty"`
}

// relays holds the documents that are handed on.
type relays struct {
	bySequence table.Of[Relay]
	pending    table.Of[table.None] // sequence
	byDocument table.Of[table.None] // document, sequence
	byNode     table.Of[table.None] // node, sequence; those whose node is known
	ended      table.Of[table.None] // share, sequence; see relay_capacity.go
	used       table.Of[relayUse]   // by share; a document counts as often as it is handed on
}

func newRelays() relays {
	return relays{
		bySequence: table.New[Relay](), pending: table.New[table.None](), byDocument: table.New[table.None](), byNode: table.New[table.None](),
		ended: table.New[table.None](), used: table.New[relayUse](),
	}
}

func (r Relay) documentKey() []byte {
	return append(append(make([]byte, 0, len(r.Document)+8), r.Document[:]...), table.TokenKey(r.Sequence)...)
}

// index files a relay in the orders; its document is stored.
func (d *data) indexRelay(r Relay) {
	key := table.TokenKey(r.Sequence)
	d.relays.bySequence.Put(key, r)
	d.relays.byDocument.Put(r.documentKey(), table.None{})
	if r.Node != "" {
		d.relays.byNode.Put(table.NameKey(r.Node, r.Sequence), table.None{})
	}
	if r.State == RelayPending {
		d.relays.pending.Put(key, table.None{})
	} else {
		d.shared.Arm(r.Expires, dueRelay, key)
	}
	d.countRelay(r, true)
}

// dropRelay removes a relay and lets its document go. Its deadline is out of the
// table, or goes with it.
func (d *data) dropRelay(r Relay) {
	key := table.TokenKey(r.Sequence)
	d.countRelay(r, false)
	d.relays.bySequence.Drop(key)
	d.relays.byDocument.Drop(r.documentKey())
	d.relays.byNode.Drop(table.NameKey(r.Node, r.Sequence))
	d.relays.pending.Drop(key)
	d.shared.Disarm(r.Expires, dueRelay, key)
	d.blobs.Unref(r.Document)
}

// expireRelay ends the time that a document is kept.
func (t *txn) expireRelay(sequence fencing.Token) {
	if r, ok := t.relays.bySequence.Get(table.TokenKey(sequence)); ok {
		t.dropRelay(r)
	}
}

// repeated finds the relay that a document repeats.
func (d *data) repeated(document blobs.Hash, now Time) (Relay, bool) {
	r, ok := d.newestRelay(d.relays.byDocument, document[:])
	return r, ok && (r.State == RelayPending || now.Sub(r.Accepted) < RelayRepeat)
}

// newestRelay returns the last relay under a prefix of an order.
func (d *data) newestRelay(order table.Of[table.None], prefix []byte) (newest Relay, ok bool) {
	for key := range order.Under(prefix) {
		newest, ok = d.relays.bySequence.Get(table.TokenKey(table.TailToken(key)))
	}
	return newest, ok
}

// endRelay ends a relay that is kept for so long.
func (t *txn) endRelay(r Relay, state RelayState, reason string, keep time.Duration) Relay {
	r.State, r.Open, r.Reason = state, false, reason
	r.Expires, r.EndedMillis = t.Now().Add(cmp.Or(keep, MaxRelayKeep)), t.Wall()
	return r
}

// putRelay stores a relay in the place of an older version of it.
func (t *txn) putRelay(r Relay) {
	key := table.TokenKey(r.Sequence)
	if old, _ := t.relays.bySequence.Get(key); old.State != r.State || old.Node != r.Node {
		t.countRelay(old, false)
		t.countRelay(r, true)
	}
	t.relays.bySequence.Put(key, r)
	if r.State != RelayPending {
		t.relays.pending.Drop(key)
		t.Arm(r.Expires, dueRelay, key)
	}
}

// doubtRelays forgets what became of attempts: in the history that was cut off
// there may have been more of them.
func (d *data) doubtRelays() {
	for key := range d.relays.pending.All() {
		r, _ := d.relays.bySequence.Get(key)
		r.Doubt = r.Doubt || r.Open
		r.Open = true
		d.relays.bySequence.Put(key, r)
	}
}

// dropOverdueRelays ends the time of those that are kept no longer, after a leap
// of cluster time that no entry made.
func (d *data) dropOverdueRelays() {
	for _, r := range d.relays.bySequence.All() {
		if r.State != RelayPending && r.Expires <= d.shared.Position.Now {
			d.dropRelay(r)
		}
	}
}
