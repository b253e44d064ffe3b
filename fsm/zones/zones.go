// Package zones holds in which zones the components of namespaces of Kubernetes run.
//
// The command: [Choose].
package zones

import (
	"errors"
	"fmt"
	"slices"

	"github.com/trivet-ha/trivet/fsm/codec"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Domain is all that the log, snapshots and Check know of zones.
var Domain = entry.Domain[Txn]{
	Verbs: []entry.Verb[Txn]{
		entry.NewVerb[Txn, Choose](119, "choose zones").ByLeader().From(2),
	},
	Sections: []entry.Section[Txn]{
		entry.Many('Z', "zones", func(t Txn) table.Of[Choice] { return t.byUID },
			func(t Txn, c Choice) { t.byUID.Put([]byte(c.UID), c) }),
	},
	Checks: entry.Checks[Txn]{checkZones},
}

// Tables are the choices by the UIDs of namespaces.
type Tables struct{ byUID table.Of[Choice] }

// Txn is one entry at work on the tables of zones.
type Txn struct {
	*entry.Txn
	*Tables
}

// Bounds of zones that are chosen.
const (
	// MaxChoices is the greatest number of namespaces for which zones are chosen.
	MaxChoices = 10_000
	// MaxZones is the greatest number of zones of one namespace.
	MaxZones = 64

	// zonesToSurvive is how many a namespace has whose components survive a zone: with
	// two, the loss of one leaves no majority.
	zonesToSurvive = 3
	maxZoneName    = 63 // of a label's value in Kubernetes
	maxNamespace   = 63 // of its names of namespaces
)

// Tolerance is what a namespace's components survive, for which its zones were
// chosen. The numbers are part of the log.
type Tolerance uint8

// What may be survived. A zone needs three zones, the others one.
const (
	ToleratesNothing Tolerance = 1
	ToleratesHost    Tolerance = 2
	ToleratesZone    Tolerance = 3
)

var tolerances = [...]string{"", "nothing", "host", "zone"}

// String returns what is survived.
func (t Tolerance) String() string { return codec.NameOf(tolerances[:], "tolerance", uint8(t)) }

// MarshalText implements encoding.TextMarshaler.
func (t Tolerance) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Zones returns how many zones are to be chosen.
func (t Tolerance) Zones() int {
	if t == ToleratesZone {
		return zonesToSurvive
	}
	return 1
}

// Choice is in which zones the components of a namespace of Kubernetes run. It
// is chosen once: another leader would choose others, and volumes do not move.
type Choice struct {
	UID       string        `cbor:"1,keyasint"` // of the namespace: one of the same name that is made again is another
	Namespace string        `cbor:"2,keyasint"` // its name
	Tolerance Tolerance     `cbor:"3,keyasint"`
	Zones     []string      `cbor:"4,keyasint"` // sorted, none twice
	Chosen    fencing.Token `cbor:"5,keyasint"` // of the entry
}

// Choose puts a choice into the log before any peer acts on it. It replaces
// exactly the choice that it names: a leader that does not know of one chooses
// none.
type Choose struct {
	UID       string        `cbor:"1,keyasint"`
	Namespace string        `cbor:"2,keyasint"`
	Tolerance Tolerance     `cbor:"3,keyasint,omitempty"`
	Zones     []string      `cbor:"4,keyasint,omitempty"` // none: the namespace is gone, and its choice with it
	Replaces  fencing.Token `cbor:"5,keyasint,omitempty"` // zero: there is none
}

// Validate implements Command.
func (c Choose) Validate() error {
	if err := valid.ID("UID of a namespace", c.UID); err != nil {
		return err
	}
	if err := valid.Length("namespace", c.Namespace, 1, maxNamespace); err != nil {
		return err
	}
	if len(c.Zones) > 0 {
		return validChoice(c.Tolerance, c.Zones)
	}
	if c.Tolerance != 0 || c.Replaces.IsZero() {
		return errors.New("a choice that is forgotten names the one that it is, and no tolerance")
	}
	return nil
}

// validChoice checks that zones are written in one way, and that there are enough.
func validChoice(t Tolerance, zones []string) error {
	if t < ToleratesNothing || t > ToleratesZone {
		return fmt.Errorf("a tolerance is of nothing, a host or a zone, not %d", uint8(t))
	}
	if n := len(zones); n < t.Zones() || n > MaxZones {
		return fmt.Errorf("%d zones, allowed are %d to %d for tolerance of %v", n, t.Zones(), MaxZones, t)
	}
	for i, name := range zones {
		if err := valid.Length("zone", name, 1, maxZoneName); err != nil {
			return err
		}
		if i > 0 && zones[i-1] >= name {
			return fmt.Errorf("zone %q does not come after %q", name, zones[i-1])
		}
	}
	return nil
}

// Apply implements entry.Change.
func (c Choose) Apply(t Txn) entry.Result {
	old, known := t.byUID.Get([]byte(c.UID))
	switch {
	case old.Chosen != c.Replaces:
		return entry.Refuse(entry.Conflict, "the zones of namespace %s were chosen by %v, not by %v", c.Namespace, old.Chosen,
			c.Replaces)
	case len(c.Zones) == 0:
		t.byUID.Drop([]byte(c.UID))
		return entry.Done()
	case !known && t.byUID.Size() >= MaxChoices:
		return entry.Refuse(entry.TableFull, "zones are chosen for %d namespaces, which is the most", MaxChoices)
	}
	choice := Choice{UID: c.UID, Namespace: c.Namespace, Tolerance: c.Tolerance, Zones: slices.Clone(c.Zones),
		Chosen: t.Token}
	t.byUID.Put([]byte(c.UID), choice)
	return entry.Answer(choice)
}

// Choice returns the zones chosen for the namespace of this UID.
func (s *Tables) ZoneChoice(uid string) (Choice, bool) { return s.byUID.Get([]byte(uid)) }

// ZoneChoices returns all that were chosen, in the order of UIDs.
func (s *Tables) ZoneChoices() []Choice { return table.List(s.byUID.All()) }

func checkZones(t Txn, p *valid.Problems) {
	p.Want(t.byUID.Size() <= MaxChoices, "zones are chosen for %d namespaces", t.byUID.Size())
	for key, c := range t.byUID.All() {
		p.Want(string(key) == c.UID, "the zones of namespace %s are filed under %q", c.UID, key)
		p.Want(!c.Chosen.IsZero() && c.Chosen <= t.Granted(), "the zones of namespace %s were chosen by no entry: %v",
			c.Namespace, c.Chosen)
		p.Invalid(validChoice(c.Tolerance, c.Zones), "zones of namespace %s: ", c.Namespace)
	}
}
