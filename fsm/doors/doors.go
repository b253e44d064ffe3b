// Package doors holds what at most one host may have open: the PXE filter's pass rule, and
// the floating IP.
//
// The commands: [PassOpen], [PassClosed], [AddressTaken] and [AddressReleased].
package doors

import (
	"cmp"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Domain is all that the log, snapshots and Check know of doors.
var Domain = entry.Domain[Txn]{
	Verbs: []entry.Verb[Txn]{
		entry.NewVerb[Txn, PassOpen](71, "pass open").ByLeader(),
		entry.NewVerb[Txn, PassClosed](72, "pass closed").ByLeader(),
		entry.NewVerb[Txn, AddressTaken](73, "address taken").ByLeader(),
		entry.NewVerb[Txn, AddressReleased](74, "address released").ByLeader(),
	},
	Sections: []entry.Section[Txn]{
		entry.Single('D', "doors", func(t Txn) *both { return &t.doors }).Shown(func(t Txn) any {
			return map[string]Door{"pass_rule": t.doors.Pass, "floating_ip": t.doors.Address}
		}),
	},
	Checks: entry.Checks[Txn]{checkDoors},
}

// MaxWait is the longest that a leadership may wait for another's door.
const MaxWait = time.Minute

// Door is what the log knows of something that at most one peer may hold open:
// the PXE pass rule (docs/design.md#pxe), and the floating IP
// (docs/design.md#address). The zero value is a door that is known to be shut.
type Door struct {
	// OpenBy is the leadership that may have it open, zero if none: one that
	// opens says so first, and takes it back after it has shut.
	OpenBy fencing.Token `cbor:"1,keyasint,omitempty"`
	Peer   string        `cbor:"2,keyasint,omitempty"` // server ID of OpenBy
	// Since is when OpenBy opened it; of a door that is Unknown, when the last
	// former member was heard, zero if there was none since it became so.
	Since entry.Time `cbor:"3,keyasint,omitempty"`
	Wall  int64      `cbor:"4,keyasint,omitempty"` // of Since, Unix ms; for display
	// Unknown says that a peer of an earlier history may have it open.
	Unknown bool `cbor:"5,keyasint,omitempty"`
	// ClosedBy is the newest leadership that shut it and never opens it again.
	ClosedBy fencing.Token `cbor:"6,keyasint,omitempty"`
	// Wait is what OpenBy itself would have waited for another; of a door that is
	// Unknown, what any peer might have. The next one waits no less: what a kernel keeps open it keeps as its own peer's
	// configuration says, not the waiting one's.
	Wait time.Duration `cbor:"7,keyasint,omitempty"`
	// Address is that of the floating IP's door.
	Address string `cbor:"8,keyasint,omitempty"`
	// Term and Index are those of the entry that recorded OpenBy last: by them a later
	// leadership judges whether acknowledgements prove that OpenBy has ended
	// (docs/design.md#pxe-age). Zero is not known: a cluster with a member of log
	// version 1 records neither.
	Term  uint64 `cbor:"9,keyasint,omitempty"`
	Index uint64 `cbor:"10,keyasint,omitempty"`
}

// Shut reports whether no peer has the door open, so that a leadership which begins
// may open it at once.
func (d Door) Shut() bool { return d.OpenBy.IsZero() && !d.Unknown }

// Tables are the doors. Before the first entry all are shut.
type Tables struct{ doors both }

// both are all doors that there are.
type both struct {
	Pass    Door `cbor:"1,keyasint"`
	Address Door `cbor:"2,keyasint"`
}

// PassDoor returns what is recorded of the pass rule.
func (s *Tables) PassDoor() Door { return s.doors.Pass }

// AddressDoor returns what is recorded of the floating IP.
func (s *Tables) AddressDoor() Door { return s.doors.Address }

// Txn is one entry at work on the doors.
type Txn struct {
	*entry.Txn
	*Tables
}

// UnknownPassWait and UnknownAddressWait are the least Wait of a door that is not
// known: a peer of an earlier history may have opened it after all that this log
// saw, with the longest firewall.lease and firewall.freeze that a configuration may
// set. The package firewall waits as long under these, for an address that no kernel gates.
const (
	UnknownPassWait    = 9600 * time.Millisecond
	UnknownAddressWait = 10800 * time.Millisecond
)

// PassOpen says that the present leadership is about to open the pass rule: a
// duty's command. It is refused while another leadership, or one that is not
// known, may have it open, and for good once this one has sent a PassClosed.
// The same again is a success, and renews Door.Term and Door.Index.
type PassOpen struct {
	// Wait is how long after its Lead this leadership opens at the earliest if
	// another may have the door open, at most MaxWait. See also Door.Wait.
	Wait time.Duration `cbor:"1,keyasint,omitempty"`
	// Proven is the other leadership, if this one has proven that its kernel has shut
	// the door, so that it need not wait for so long (docs/design.md#pxe-age). It
	// needs log version 2.
	Proven fencing.Token `cbor:"2,keyasint,omitempty"`
}

// Validate implements Command.
func (c PassOpen) Validate() error { return validWait(c.Wait) }

// Since is the log version that a member must know to read the command.
func (c PassOpen) Since() int { return entry.SinceField(!c.Proven.IsZero(), 2) }

func validWait(d time.Duration) error {
	if d < 0 || d > MaxWait {
		return fmt.Errorf("a leadership waits up to %v for another's door, not %v", MaxWait, d)
	}
	return nil
}

// Apply implements entry.Change.
func (c PassOpen) Apply(t Txn) entry.Result {
	return t.openDoor(eventring.TopicPXE, &t.doors.Pass, "the pass rule", Door{Wait: c.Wait}, c.Proven)
}

// PassClosed says that the present leadership shut the pass rule, or never opened
// it, and will not open it again: a duty's command. It takes back this leadership's
// PassOpen and no other.
type PassClosed struct{}

// Validate implements Command.
func (PassClosed) Validate() error { return nil }

// Apply implements entry.Change.
func (PassClosed) Apply(t Txn) entry.Result {
	return t.shutDoor(eventring.TopicPXE, eventring.ActionClosed, &t.doors.Pass)
}

// AddressTaken is to the floating IP what PassOpen is to the pass rule. One
// leadership may take another address in the place of its first.
type AddressTaken struct {
	Address string        `cbor:"1,keyasint"`           // IPv4 or IPv6, as configured; without a mask
	Wait    time.Duration `cbor:"2,keyasint,omitempty"` // as in PassOpen
	Proven  fencing.Token `cbor:"3,keyasint,omitempty"` // likewise
}

// Validate implements Command.
func (c AddressTaken) Validate() error {
	return cmp.Or(valid.Word("address", c.Address, 2, valid.MaxIP,
		func(b byte) bool { return valid.IPChar(b) || 'A' <= b && b <= 'F' }), validWait(c.Wait))
}

// Since is the log version that a member must know to read the command.
func (c AddressTaken) Since() int { return entry.SinceField(!c.Proven.IsZero(), 2) }

// Apply implements entry.Change.
func (c AddressTaken) Apply(t Txn) entry.Result {
	return t.openDoor(eventring.TopicFloatingIP, &t.doors.Address, "the floating IP",
		Door{Wait: c.Wait, Address: c.Address}, c.Proven)
}

// AddressReleased is to the floating IP what PassClosed is to the pass rule.
type AddressReleased struct{}

// Validate implements Command.
func (AddressReleased) Validate() error { return nil }

// Apply implements entry.Change.
func (AddressReleased) Apply(t Txn) entry.Result {
	return t.shutDoor(eventring.TopicFloatingIP, eventring.ActionReleased, &t.doors.Address)
}

// openDoor records that the present leadership opens a door, if it may. next
// brings what the command says; proven is the leadership that has ended, as far as
// this one has proof.
func (t Txn) openDoor(topic eventring.Topic, d *Door, what string, next Door, proven fencing.Token) entry.Result {
	token := t.Header.Token
	wait := max(next.Wait, d.Wait)
	left := t.Lead.At.Add(wait).Sub(t.Now())
	if d.Unknown {
		left = max(t.Lead.At, d.Since).Add(wait).Sub(t.Now())
	}
	awaited := t.Peers.AwaitedFormers()
	switch {
	case d.ClosedBy == token:
		return entry.Refuse(entry.Refused, "leadership %v has shut %s for good; commit a new Lead to open it again", token,
			what)
	case awaited != "":
		return entry.Refuse(entry.Refused,
			"%s may still have %s open: not heard by the present leader since the cluster was founded again; stop the peer there, or name a host that is lost with 'trivet remove'",
			awaited, what)
	case d.Unknown && left > 0:
		return entry.Refuse(entry.Refused, "who has %s open is not known since a restore or recovery; wait another %v", what,
			left)
	case !d.Shut() && d.OpenBy != token && left > 0 && !(t.Version2() && d.endedFor(t.Lead, proven)):
		return entry.Refuse(entry.Refused, "peer %s may have %s open under token %v; wait another %v", d.Peer, what, d.OpenBy,
			left)
	case d.OpenBy == token:
		if d.Address != next.Address {
			d.Address = next.Address
			t.recordDoor(topic, eventring.ActionTaken, *d)
		}
		d.Wait = wait // an earlier configuration's may still be in force
		d.record(t)
		return entry.Done()
	case !d.OpenBy.IsZero():
		t.recordDoor(topic, eventring.ActionLapsed, *d)
	}
	next.OpenBy, next.Peer, next.ClosedBy = token, t.Lead.Peer, d.ClosedBy
	next.Since, next.Wall = t.Now(), t.Header.WallMillis
	next.record(t)
	*d = next
	action := eventring.ActionTaken
	if topic == eventring.TopicPXE {
		action = eventring.ActionOpened
	}
	t.recordDoor(topic, action, next)
	return entry.Done()
}

// endedFor reports whether a leadership may rely on its proof that another one, whose
// door this is, has shut it: acknowledgements tell of leaders of earlier terms alone.
// An unknown door has no term.
func (d Door) endedFor(lead entry.Leadership, proven fencing.Token) bool {
	return d.OpenBy == proven && d.Term != 0 && d.Term < lead.Term
}

// record notes the place in the log of the entry at work, where every member reads it.
func (d *Door) record(t Txn) {
	d.Term, d.Index = 0, 0
	if t.Version2() {
		d.Term, d.Index = t.Term, t.Position.Index
	}
}

// shutDoor records that the present leadership opens a door no more.
func (t Txn) shutDoor(topic eventring.Topic, action string, d *Door) entry.Result {
	if d.OpenBy == t.Header.Token {
		t.recordDoor(topic, action, *d)
		*d = Door{}
	}
	d.ClosedBy = t.Header.Token
	return entry.Done()
}

// recordDoor tells of a door that its peer opened or shut, or whose time ran out.
func (t Txn) recordDoor(topic eventring.Topic, action string, d Door) {
	t.RecordEvent(eventring.Event{Topic: topic, Action: action, Peer: t.NameOf(d.Peer),
		Fields: eventring.Fields("address", d.Address, "token", d.OpenBy.String())})
}

// Doubt begins a new history, whose log does not say who has a door open: what this one and
// another history recorded of the waits holds.
func (t Txn) Doubt(other Tables) { t.doors = t.doors.afterFounding(other.doors) }

// afterFounding is what remains of doors when it is not known who has one open.
func (d both) afterFounding(other both) both {
	return both{
		Pass:    Door{Unknown: true, Wait: max(d.Pass.Wait, other.Pass.Wait, UnknownPassWait)},
		Address: Door{Unknown: true, Wait: max(d.Address.Wait, other.Address.Wait, UnknownAddressWait)},
	}
}

// FormerHeard says that another former member was heard: of doors that are not known the
// wait begins again.
func (t Txn) FormerHeard() {
	for _, door := range []*Door{&t.doors.Pass, &t.doors.Address} {
		if door.Unknown {
			door.Since = t.Now()
		}
	}
}

// FormerDoubted makes doors unknown that a former member may have open by now. What
// the present leadership has open it knows.
func (t Txn) FormerDoubted() {
	unknown := t.doors.afterFounding(both{})
	for _, of := range [...]struct {
		door, unknown *Door
	}{{&t.doors.Pass, &unknown.Pass}, {&t.doors.Address, &unknown.Address}} {
		if of.door.OpenBy.IsZero() || of.door.OpenBy != t.Lead.Token {
			of.unknown.ClosedBy = of.door.ClosedBy
			*of.door = *of.unknown
		}
	}
}

func checkDoors(t Txn, p *valid.Problems) {
	p.Want(t.doors.Pass.Address == "", "the pass rule has the address %q", t.doors.Pass.Address)
	p.Want((t.doors.Address.Address == "") == t.doors.Address.OpenBy.IsZero(), "the address %q is held by %v",
		t.doors.Address.Address, t.doors.Address.OpenBy)
	for _, door := range [...]Door{t.doors.Pass, t.doors.Address} {
		p.Want(door.OpenBy <= t.Position.Floor && door.ClosedBy <= t.Position.Floor,
			"a door of a leadership that never was: %+v", door)
		p.Want(validWait(door.Wait) == nil && 0 <= door.Since && door.Since <= t.Now(), "a door of the future: %+v", door)
		if door.OpenBy.IsZero() {
			p.Want(door == Door{ClosedBy: door.ClosedBy} ||
				door == Door{ClosedBy: door.ClosedBy, Unknown: true, Wait: door.Wait, Since: door.Since}, "a shut door: %+v", door)
			continue
		}
		p.Want(!door.Unknown && door.Peer != "" && door.OpenBy != door.ClosedBy, "an open door: %+v", door)
		if door.Term == 0 && door.Index == 0 {
			continue // recorded while a member knew log version 1
		}
		pos := t.Position
		p.Want(0 < door.Term && door.Term <= pos.Term && door.Index <= pos.Index,
			"a door of a place in the log that is to come: %+v", door)
		p.Want(fencing.At(t.Cluster.Base, door.Index) > door.OpenBy, "a door recorded before its leadership: %+v", door)
	}
}
