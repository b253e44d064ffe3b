package leases

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// MaxGroupMembers is the greatest number of members of all groups together.
const MaxGroupMembers = 10_000

// GroupMember is one of the instances of a component that are there: as long as it
// holds a lease under a token, and not a moment longer.
type GroupMember struct {
	Component string        `cbor:"1,keyasint"`
	ID        string        `cbor:"2,keyasint"`
	Lease     string        `cbor:"3,keyasint"`
	Token     fencing.Token `cbor:"4,keyasint"`
	Metadata  string        `cbor:"5,keyasint,omitempty"`
}

// groups holds the members and finds those that a lease keeps there.
type groups struct {
	members table.Of[GroupMember] // by component and ID
	byLease table.Of[table.None]  // lease, component and ID
	changes table.Of[*change]     // the last one, by component; of those that have members
}

// change is one of a group. Only its address counts, which no snapshot keeps.
type change struct{ _ byte }

// changed notes that a component's members are others than before.
func (g *groups) changed(component string) {
	prefix := pathKey(component, "")
	if key, ok := g.members.From(prefix); ok && bytes.HasPrefix(key, prefix) {
		g.changes.Put([]byte(component), new(change))
		return
	}
	g.changes.Drop([]byte(component))
}

// pathKey joins texts that hold no zero byte, so that what begins with the first
// is found in order.
func pathKey(parts ...string) []byte {
	var key []byte
	for n, part := range parts {
		if n > 0 {
			key = append(key, 0)
		}
		key = append(key, part...)
	}
	return key
}

func (g *groups) put(m GroupMember) {
	g.drop(m.Component, m.ID)
	g.members.Put(pathKey(m.Component, m.ID), m)
	g.byLease.Put(pathKey(m.Lease, m.Component, m.ID), table.None{})
	g.changed(m.Component)
}

func (g *groups) drop(component, id string) {
	if old, ok := g.members.Get(pathKey(component, id)); ok {
		g.members.Drop(pathKey(component, id))
		g.byLease.Drop(pathKey(old.Lease, component, id))
		g.changed(component)
	}
}

// leave takes away whom a lease kept there, when a grant of it ends.
func (g *groups) leave(lease string) {
	prefix := pathKey(lease, "")
	var ended [][]byte
	for key := range g.byLease.Under(prefix) {
		ended = append(ended, key)
	}
	for _, key := range ended {
		member := key[len(prefix):]
		g.members.Drop(member)
		component, _, _ := bytes.Cut(member, []byte{0})
		g.changed(string(component))
	}
	g.byLease.DropAll(ended)
}

// JoinGroup makes an instance one of its component, for as long as it holds the
// lease. The same again changes its metadata alone; another lease takes the ID over
// only when the first is over.
type JoinGroup struct {
	Component string        `cbor:"1,keyasint"`
	ID        string        `cbor:"2,keyasint"`
	Lease     string        `cbor:"3,keyasint"`
	Token     fencing.Token `cbor:"4,keyasint"`
	Metadata  string        `cbor:"5,keyasint,omitempty"`
}

// Validate implements Command.
func (c JoinGroup) Validate() error {
	return cmp.Or(validGroupMember(c.Component, c.ID), validLeaseName(c.Lease),
		valid.Length("metadata", c.Metadata, 0, maxMetadata))
}

// validGroupMember accepts components of DNS kind, and IDs that stand in a URL's
// path as they are.
func validGroupMember(component, id string) error {
	if err := validLeaseName(component); err != nil {
		return fmt.Errorf("component: %w", err)
	}
	return valid.ID("member ID", id)
}

// Apply implements entry.Change.
func (c JoinGroup) Apply(t Txn) entry.Result {
	if res := t.holds(guard{c.Lease, c.Token}); res != nil {
		return *res
	}
	old, known := t.groups.members.Get(pathKey(c.Component, c.ID))
	switch {
	case known && old.Lease != c.Lease:
		return entry.Refuse(entry.Conflict, "%s is a member of %s by lease %s already", c.ID, c.Component, old.Lease)
	case !known && t.groups.members.Size() >= MaxGroupMembers:
		return entry.Refuse(entry.TableFull, "the groups have %d members, which is the most; have one leave", MaxGroupMembers)
	}
	t.groups.put(GroupMember(c))
	return entry.Done()
}

// LeaveGroup takes an instance out of its component. The same again is a success.
type LeaveGroup struct {
	Component string        `cbor:"1,keyasint"`
	ID        string        `cbor:"2,keyasint"`
	Lease     string        `cbor:"3,keyasint"`
	Token     fencing.Token `cbor:"4,keyasint"`
}

// Validate implements Command.
func (c LeaveGroup) Validate() error {
	return cmp.Or(validGroupMember(c.Component, c.ID), validLeaseName(c.Lease))
}

// Apply implements entry.Change.
func (c LeaveGroup) Apply(t Txn) entry.Result {
	m, known := t.groups.members.Get(pathKey(c.Component, c.ID))
	if !known {
		return entry.Done()
	}
	if m.Lease != c.Lease || m.Token != c.Token {
		return entry.Refuse(entry.Conflict, "%s is a member of %s by lease %s and token %v", c.ID, c.Component, m.Lease,
			m.Token)
	}
	t.groups.drop(c.Component, c.ID)
	return entry.Done()
}

// SameGroup says that a component's members have not changed between two states. It may fail
// to say so of states before and after a snapshot.
func SameGroup(a, b *Tables, component string) bool {
	one, _ := a.groups.changes.Get([]byte(component))
	other, _ := b.groups.changes.Get([]byte(component))
	return one == other
}

// Group returns the members of a component that are there, in the order of their
// IDs.
func (s *Tables) Group(component string) []GroupMember {
	return table.List(s.groups.members.Under(pathKey(component, "")))
}
