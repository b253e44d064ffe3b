// Package macset is a list of MACs that tells what has changed in it lately.
package macset

import (
	"bytes"
	"iter"

	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Set is a list of MACs. A MAC is on it for as long as at least one owner, a
// port or a node, keeps it there.
type Set struct {
	entries table.Of[table.None] // MAC, zero byte, owner
	count   int                  // of MACs
	changed feed
}

// setKey orders by MAC, then by owner.
func setKey(mac, owner string) []byte {
	key := make([]byte, 0, len(mac)+1+len(owner))
	return append(append(append(key, mac...), 0), owner...)
}

// Has reports whether a MAC is on the list.
func (r *Set) Has(mac string) bool {
	for range r.entries.Under(setKey(mac, "")) {
		return true
	}
	return false
}

// Add puts an owner's MAC on the list by the entry at index.
func (r *Set) Add(mac, owner string, index uint64) {
	if !r.Has(mac) {
		r.count++
		r.changed.noteChange(index, mac)
	}
	r.entries.Put(setKey(mac, owner), table.None{})
}

// Remove takes a MAC that its owner put there off the list, by the entry at
// index, unless another owner keeps it.
func (r *Set) Remove(mac, owner string, index uint64) {
	r.entries.Drop(setKey(mac, owner))
	if !r.Has(mac) {
		r.count--
		r.changed.noteChange(index, mac)
	}
}

// MACs iterates over the list in order, every MAC with its first owner.
func (r *Set) MACs() iter.Seq2[string, string] {
	return func(yield func(mac, owner string) bool) {
		last := ""
		for key := range r.entries.All() {
			mac, owner, _ := bytes.Cut(key, []byte{0})
			if string(mac) == last {
				continue
			}
			last = string(mac)
			if !yield(last, string(owner)) {
				return
			}
		}
	}
}

// Owners iterates over who keeps a MAC on the list, in order.
func (r *Set) Owners(mac string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for key := range r.entries.Under(setKey(mac, "")) {
			if !yield(string(key[len(mac)+1:])) {
				return
			}
		}
	}
}

// Size returns how many MACs the list has.
func (r *Set) Size() int { return r.count }

// Keeps reports whether an owner keeps a MAC on the list.
func (r *Set) Keeps(mac, owner string) bool { return r.entries.Has(setKey(mac, owner)) }

// ChangedSince returns the MACs that joined or left the list after the entry at index, in
// order and each once, up to the last entry. ok is false when the list cannot tell.
func (r *Set) ChangedSince(index, last uint64) (macs []string, ok bool) {
	return r.changed.changedAfter(index, last)
}

// ForgetChanges begins the memory of changes again after the entry at index.
func (r *Set) ForgetChanges(index uint64) { r.changed = feed{since: index} }

// Check verifies a list that has to have so many entries, after the last entry of the log.
func (r *Set) Check(p *valid.Problems, name string, entries int, last uint64) {
	p.Want(r.entries.Size() == entries, "the %s has %d entries for %d MACs of owners", name, r.entries.Size(), entries)
	count := 0
	for range r.MACs() {
		count++
	}
	p.Want(r.count == count, "the %s has %d MACs, counted are %d", name, count, r.count)
	r.changed.check(p, name, last)
}
