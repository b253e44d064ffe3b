package fsm

import (
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/valid"
)

func checkPorts(d *txn, p *valid.Problems) {
	p.Want(d.ports.byID.Size() <= MaxPorts, "%d ports", d.ports.byID.Size())
	for key, port := range d.ports.byID.All() {
		p.Want(string(key) == port.ID, "port %s is filed under %q", port.ID, key)
		if err := port.validate(); err != nil {
			p.Addf("%v", err)
		}
		p.Want(d.ports.denied.Keeps(port.MAC, port.ID), "port %s is missing from the blacklist", port.ID)
	}
	d.ports.denied.Check(p, "blacklist", d.ports.byID.Size(), d.shared.Position.Index)
	pull := d.ports.pull
	p.Want(!pull.Token.IsZero() || pull == Pull{}, "a pull under no token: %+v", pull)
	p.Want(pull.Token <= d.shared.Position.Floor, "the pull is of leadership %v, which never was", pull.Token)
	p.Want(0 <= pull.At && pull.At <= d.shared.Position.Now && 0 <= pull.Ports && pull.Ports <= MaxPorts, "a pull of %d ports at %v", pull.Ports, pull.At)
}

func checkDoors(d *txn, p *valid.Problems) {
	p.Want(d.doors.Pass.Address == "", "the pass rule has the address %q", d.doors.Pass.Address)
	p.Want((d.doors.Address.Address == "") == d.doors.Address.OpenBy.IsZero(), "the address %q is held by %v", d.doors.Address.Address, d.doors.Address.OpenBy)
	for _, door := range [...]Door{d.doors.Pass, d.doors.Address} {
		p.Want(door.OpenBy <= d.shared.Position.Floor && door.ClosedBy <= d.shared.Position.Floor, "a door of a leadership that never was: %+v", door)
		p.Want(validWait(door.Wait) == nil && 0 <= door.Since && door.Since <= d.shared.Position.Now, "a door of the future: %+v", door)
		if door.OpenBy.IsZero() {
			p.Want(door == Door{ClosedBy: door.ClosedBy} || door == Door{ClosedBy: door.ClosedBy, Unknown: true, Wait: door.Wait, Since: door.Since}, "a shut door: %+v", door)
			continue
		}
		p.Want(!door.Unknown && door.Peer != "" && door.OpenBy != door.ClosedBy, "an open door: %+v", door)
		if door.Term == 0 && door.Index == 0 {
			continue // recorded while a member knew log version 1
		}
		pos := d.shared.Position
		p.Want(0 < door.Term && door.Term <= pos.Term && door.Index <= pos.Index, "a door of a place in the log that is to come: %+v", door)
		p.Want(fencing.At(d.shared.Cluster.Base, door.Index) > door.OpenBy, "a door recorded before its leadership: %+v", door)
	}
}
