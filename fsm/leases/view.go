package leases

import (
	"iter"

	"github.com/trivet-ha/trivet/fsm/table"
)

// LeaseCount returns how many leases there are by name, free ones too.
func (s *Tables) LeaseCount() int { return s.leases.Size() }

// LeasesHeld counts the leases that have a holder; it goes through all.
func (s *Tables) LeasesHeld() int {
	held := 0
	for _, l := range s.leases.All() {
		if l.Holder != "" {
			held++
		}
	}
	return held
}

// LeasesAfter iterates in order over the leases whose names come after another name.
func (s *Tables) LeasesAfter(name string) iter.Seq[Lease] {
	return table.Values(s.leases.UnderFrom(nil, table.JustAfter(name)))
}

// ValueCount returns how many values there are.
func (s *Tables) ValueCount() int { return s.values.byKey.Size() }

// ValueBytes returns the length of all values together.
func (s *Tables) ValueBytes() int { return s.values.bytes }

// GroupMemberCount returns how many members all groups have together.
func (s *Tables) GroupMemberCount() int { return s.groups.members.Size() }

// Lease returns a lease, also one that is free.
func (s *Tables) Lease(name string) (Lease, bool) { return s.leases.Get([]byte(name)) }

// Leases returns all leases in the order of their names.
func (s *Tables) Leases() []Lease { return table.List(s.leases.All()) }
