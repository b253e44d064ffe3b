package doors

import (
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/valid"
)

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
