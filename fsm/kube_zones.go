package fsm

import (
	"slices"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

var zoneDomain = domain{
	verbs: []row{
		verb(119, "choose zones", applyChooseZones).byLeader().from(2),
	},
	sections: []section{
		many('Z', "zones", func(d *data) table[ZoneChoice] { return d.zones },
			func(d *data, c ZoneChoice) { d.zones.put([]byte(c.UID), c) }),
	},
	check: checkZones,
}

// Bounds of zones that are chosen.
const (
	// MaxZoneChoices is the greatest number of namespaces for which zones are chosen.
	MaxZoneChoices = 10_000
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
func (t Tolerance) String() string { return nameOf(tolerances[:], "tolerance", uint8(t)) }

// MarshalText implements encoding.TextMarshaler.
func (t Tolerance) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Zones returns how many zones are to be chosen.
func (t Tolerance) Zones() int {
	if t == ToleratesZone {
		return zonesToSurvive
	}
	return 1
}

// ZoneChoice is in which zones the components of a namespace of Kubernetes run. It
// is chosen once: another leader would choose others, and volumes do not move.
type ZoneChoice struct {
	UID       string        `cbor:"1,keyasint"` // of the namespace: one of the same name that is made again is another
	Namespace string        `cbor:"2,keyasint"` // its name
	Tolerance Tolerance     `cbor:"3,keyasint"`
	Zones     []string      `cbor:"4,keyasint"` // sorted, none twice
	Chosen    fencing.Token `cbor:"5,keyasint"` // of the entry
}

// ChooseZones puts a choice into the log before any peer acts on it. It replaces
// exactly the choice that it names: a leader that does not know of one chooses
// none.
type ChooseZones struct {
	UID       string        `cbor:"1,keyasint"`
	Namespace string        `cbor:"2,keyasint"`
	Tolerance Tolerance     `cbor:"3,keyasint,omitempty"`
	Zones     []string      `cbor:"4,keyasint,omitempty"` // none: the namespace is gone, and its choice with it
	Replaces  fencing.Token `cbor:"5,keyasint,omitempty"` // zero: there is none
}

// Validate implements Command.
func (c ChooseZones) Validate() error {
	if err := validID("UID of a namespace", c.UID); err != nil {
		return err
	}
	if err := within("namespace", c.Namespace, 1, maxNamespace); err != nil {
		return err
	}
	if len(c.Zones) > 0 {
		return validChoice(c.Tolerance, c.Zones)
	}
	if c.Tolerance != 0 || c.Replaces.IsZero() {
		return invalid("a choice that is forgotten names the one that it is, and no tolerance")
	}
	return nil
}

// validChoice checks that zones are written in one way, and that there are enough.
func validChoice(t Tolerance, zones []string) error {
	if t < ToleratesNothing || t > ToleratesZone {
		return invalid("a tolerance is of nothing, a host or a zone, not %d", uint8(t))
	}
	if n := len(zones); n < t.Zones() || n > MaxZones {
		return invalid("%d zones, allowed are %d to %d for tolerance of %v", n, t.Zones(), MaxZones, t)
	}
	for i, name := range zones {
		if err := within("zone", name, 1, maxZoneName); err != nil {
			return err
		}
		if i > 0 && zones[i-1] >= name {
			return invalid("zone %q does not come after %q", name, zones[i-1])
		}
	}
	return nil
}

func applyChooseZones(t *txn, c ChooseZones) Result {
	old, known := t.zones.get([]byte(c.UID))
	switch {
	case old.Chosen != c.Replaces:
		return refuse(Conflict, "the zones of namespace %s were chosen by %v, not by %v", c.Namespace, old.Chosen, c.Replaces)
	case len(c.Zones) == 0:
		t.zones.drop([]byte(c.UID))
		return done()
	case !known && t.zones.size() >= MaxZoneChoices:
		return refuse(TableFull, "zones are chosen for %d namespaces, which is the most", MaxZoneChoices)
	}
	choice := ZoneChoice{UID: c.UID, Namespace: c.Namespace, Tolerance: c.Tolerance, Zones: slices.Clone(c.Zones), Chosen: t.token}
	t.zones.put([]byte(c.UID), choice)
	return answer(choice)
}

// ZoneChoice returns the zones chosen for the namespace of this UID.
func (v View) ZoneChoice(uid string) (ZoneChoice, bool) { return v.d.zones.get([]byte(uid)) }

// ZoneChoices returns all that were chosen, in the order of UIDs.
func (v View) ZoneChoices() []ZoneChoice { return values(v.d.zones.all()) }

func checkZones(d *data, p *problems) {
	p.want(d.zones.size() <= MaxZoneChoices, "zones are chosen for %d namespaces", d.zones.size())
	for key, c := range d.zones.all() {
		p.want(string(key) == c.UID, "the zones of namespace %s are filed under %q", c.UID, key)
		p.want(!c.Chosen.IsZero() && c.Chosen <= d.granted(), "the zones of namespace %s were chosen by no entry: %v", c.Namespace, c.Chosen)
		if err := validChoice(c.Tolerance, c.Zones); err != nil {
			p.addf("zones of namespace %s: %v", c.Namespace, err)
		}
	}
}
