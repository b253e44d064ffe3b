package kubestate

import (
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm/codec"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
)

// Bounds of remediations.
const (
	// MaxRemediations is the greatest number that are kept, the open ones included.
	// When there is no room, the one that ended first goes.
	MaxRemediations = 2_000
	// Keep is for how long a remediation is kept after it ended.
	Keep = 30 * 24 * time.Hour
	// MaxSteps is how many steps of one are kept: its first
	// firstRemediationSteps and its newest.
	MaxSteps = 64

	firstRemediationSteps = 16
	maxDevice             = 128
)

// State is how far a remediation has come. The numbers are part of the
// log.
type State uint8

// The states of a remediation. Each is in the log after what it says was done,
// except fencing, which is there before.
const (
	RemIntent    State = 1  // it has begun; nothing was done yet
	RemCordoned  State = 2  // no new pods come
	RemFencing   State = 3  // its power is being taken
	RemOff       State = 4  // the machine was off, twice
	RemTainted   State = 5  // Kubernetes knows that it is out of service
	RemDeleted   State = 6  // its pods are deleted
	RemDetached  State = 7  // no volume is attached to it
	RemRecovered State = 8  // the end: it is back, or gone for good
	RemCancelled State = 9  // the end: it was alive after all, or an operator said so
	RemStuck     State = 10 // it cannot go on by itself
)

var remediationStates = [...]string{"", "intent", "cordoned", "fencing", "off", "tainted", "deleted", "detached",
	"recovered", "cancelled", "stuck"}

// String returns the state in a word.
func (s State) String() string {
	return codec.NameOf(remediationStates[:], "remediation state", uint8(s))
}

// MarshalText implements encoding.TextMarshaler.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Ended reports whether a remediation in this state is over.
func (s State) Ended() bool { return s == RemRecovered || s == RemCancelled }

func (s State) known() bool { return s >= RemIntent && s <= RemStuck }

// remediationSet is a set of states, one bit each.
type remediationSet uint16

func remediationsIn(states ...State) (set remediationSet) {
	for _, s := range states {
		set |= 1 << s
	}
	return set
}

func (set remediationSet) has(s State) bool { return s.known() && set>>s&1 == 1 }

// remediationNext is the transition table: which states may follow. A state that
// may follow itself takes notes.
var remediationNext = [...]remediationSet{
	RemIntent:    remediationsIn(RemCordoned, RemCancelled, RemStuck),
	RemCordoned:  remediationsIn(RemFencing, RemCancelled, RemStuck),
	RemFencing:   remediationsIn(RemFencing, RemOff, RemRecovered, RemCancelled, RemStuck),
	RemOff:       remediationsIn(RemTainted, RemFencing, RemRecovered, RemStuck),
	RemTainted:   remediationsIn(RemDeleted, RemFencing, RemRecovered, RemStuck),
	RemDeleted:   remediationsIn(RemDetached, RemFencing, RemRecovered, RemStuck),
	RemDetached:  remediationsIn(RemRecovered, RemFencing, RemStuck),
	RemRecovered: remediationsIn(RemRecovered),
	RemCancelled: remediationsIn(RemCancelled),
	RemStuck:     remediationsIn(RemStuck, RemFencing, RemRecovered, RemCancelled),
}

// Remediation is what is done about one kube node that is taken for dead: its
// machine is switched off, then its work moves. Of a kube node, by its UID and by
// its name, at most one is open.
type Remediation struct {
	Intent       fencing.Token `cbor:"1,keyasint"` // token of the entry that began it; its identity
	Cluster      string        `cbor:"2,keyasint"`
	Node         string        `cbor:"3,keyasint"` // the kube node's name
	UID          string        `cbor:"4,keyasint"` // and that of its object
	BootID       string        `cbor:"5,keyasint,omitempty"`
	ControlPlane bool          `cbor:"6,keyasint,omitempty"`
	State        State         `cbor:"7,keyasint"`
	Attempts     int           `cbor:"8,keyasint,omitempty"` // power-off commands that were announced
	Device       string        `cbor:"9,keyasint,omitempty"` // that was named last
	// WasOff says that the machine was off at some time: what ran on it may run
	// elsewhere since, and nothing makes that undone.
	WasOff bool   `cbor:"10,keyasint,omitempty"`
	Steps  []Step `cbor:"11,keyasint"` // at most MaxSteps
	// Cluster times: of its begin; of State; and until when it is kept, once it ended.
	Began   entry.Time `cbor:"12,keyasint,omitempty"`
	Since   entry.Time `cbor:"13,keyasint,omitempty"`
	Expires entry.Time `cbor:"14,keyasint,omitempty"`
	// SystemUUID is the machine's, as its kubelet had read it when it began; "" if it
	// had told none.
	SystemUUID string `cbor:"15,keyasint,omitempty"`
}

// Step is one step of a remediation, or a note.
type Step struct {
	State    State         `cbor:"1,keyasint"`
	Token    fencing.Token `cbor:"2,keyasint"` // of its entry
	At       entry.Time    `cbor:"3,keyasint,omitempty"`
	Millis   int64         `cbor:"4,keyasint,omitempty"` // wall clock, Unix ms, for display
	Peer     string        `cbor:"5,keyasint,omitempty"` // that took it; the operator, if Operator
	Operator bool          `cbor:"6,keyasint,omitempty"`
	Device   string        `cbor:"7,keyasint,omitempty"` // that it announces a power-off command to
	Reason   string        `cbor:"8,keyasint,omitempty"`
}

// May reports whether the table lets a state follow another. A
// remediation's past may still forbid it, see [Remediation.May].
func May(from, to State) bool {
	return from.known() && remediationNext[from].has(to)
}

// May reports whether a step to a state is possible from the present one, for the
// peer that carries it out; what an operator may is told at [ReleaseRemediation].
// Once a machine was off there is no cancel: the remediation goes on, or recovers.
// Before it was off, nothing that is being fenced has recovered: it is cancelled.
// Nothing is off whose power-off was not announced.
func (r Remediation) May(to State) bool {
	switch {
	case !May(r.State, to):
		return false
	case to == RemCancelled:
		return !r.WasOff || r.State == RemCancelled
	case to == RemOff:
		return r.Attempts > 0
	case to == RemRecovered && r.State == RemFencing:
		return r.WasOff
	}
	return true
}

// stepped returns the remediation after a step. The slice of steps is shared with
// older views, so it is copied.
func (r Remediation) stepped(s Step) Remediation {
	if s.State != r.State || len(r.Steps) == 0 {
		r.State, r.Since = s.State, s.At
	}
	if s.Device != "" {
		r.Device = s.Device
		r.Attempts++
	}
	r.WasOff = r.WasOff || s.State == RemOff
	steps := slices.Clone(r.Steps)
	if len(steps) == MaxSteps {
		steps = slices.Delete(steps, firstRemediationSteps, firstRemediationSteps+1)
	}
	r.Steps = append(steps, s)
	return r
}

// HeldByCancel reports whether an operator cancelled a remediation, and neither a peer has
// noted since that the kube node was well again nor an operator that it may be fenced.
func (r Remediation) HeldByCancel() bool {
	last := len(r.Steps) - 1
	return last > 0 && r.State == RemCancelled && r.Steps[last].Operator && !r.noted(last)
}

// LetsFence reports whether a step is an operator's word that the machine may be switched
// off: a release to fencing, or a note in a remediation that has ended.
func (r Remediation) LetsFence(step int) bool {
	s := r.Steps[step]
	return s.Operator && (s.State == RemFencing || r.noted(step))
}

// noted reports whether a step is a note in a remediation that had ended.
func (r Remediation) noted(step int) bool {
	return step > 0 && r.Steps[step].State.Ended() && r.Steps[step-1].State == r.Steps[step].State
}

// putRemediation files a remediation, or a newer version of it.
func (t Txn) putRemediation(r Remediation) {
	t.remediations.Put(table.TokenKey(r.Intent), r)
	byUID, byName := kubeKey(r.Cluster, r.UID), kubeKey(r.Cluster, r.Node)
	if !r.State.Ended() {
		t.open.Put(byUID, r.Intent)
		t.openName.Put(byName, r.Intent)
		return
	}
	if intent, _ := t.open.Get(byUID); intent == r.Intent {
		t.open.Drop(byUID)
	}
	if intent, _ := t.openName.Get(byName); intent == r.Intent {
		t.openName.Drop(byName)
	}
	t.ended.Put(r.endedKey(), table.None{})
	t.Arm(r.Expires, dueRemediation, table.TokenKey(r.Intent))
}

func (r Remediation) endedKey() []byte {
	return table.LongKey(uint64(r.Expires), table.TokenKey(r.Intent))
}

// dropRemediation forgets one that has ended.
func (t Txn) dropRemediation(r Remediation) {
	t.remediations.Drop(table.TokenKey(r.Intent))
	t.ended.Drop(r.endedKey())
	t.Disarm(r.Expires, dueRemediation, table.TokenKey(r.Intent))
}

// expireRemediation ends the time that one is kept.
func (t Txn) expireRemediation(intent fencing.Token) {
	if r, ok := t.remediations.Get(table.TokenKey(intent)); ok {
		t.dropRemediation(r)
	}
}

// HeldByFounding is the reason of the step by which a founding leaves an open
// remediation to an operator. Nothing is done about it before they release it, unless
// its machine is well again.
const HeldByFounding = "the cluster was founded again, from a state that may be older than what has been done about this machine since: an operator decides"

// HoldRemediations leaves what is open to an operator: the machine may have been back
// at work for long.
func (t Txn) HoldRemediations(millis int64) {
	for _, r := range t.remediations.All() {
		if r.State.Ended() {
			continue
		}
		t.putRemediation(r.stepped(Step{
			State: RemStuck, Token: t.Granted(), At: t.Position.Now, Millis: max(millis, 0), Reason: HeldByFounding,
		}))
	}
}
