package doors

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
