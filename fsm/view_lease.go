package fsm

import "iter"

// LeaseCount returns how many leases there are by name, free ones too.
func (v View) LeaseCount() int { return v.d.leases.size() }

// LeasesHeld counts the leases that have a holder; it goes through all.
func (v View) LeasesHeld() int {
	held := 0
	for _, l := range v.d.leases.all() {
		if l.Holder != "" {
			held++
		}
	}
	return held
}

// LeasesAfter iterates in order over the leases whose names come after another name.
func (v View) LeasesAfter(name string) iter.Seq[Lease] {
	return keyless(v.d.leases.underFrom(nil, justAfter(name)))
}

// ValueCount returns how many values there are.
func (v View) ValueCount() int { return v.d.values.byKey.size() }

// ValueBytes returns the length of all values together.
func (v View) ValueBytes() int { return v.d.values.bytes }

// GroupMemberCount returns how many members all groups have together.
func (v View) GroupMemberCount() int { return v.d.groups.members.size() }
