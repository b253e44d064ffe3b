package fsm

import (
	"bytes"
	"iter"
)

// macSet is a list of MACs. A MAC is on it for as long as at least one owner, a
// port or a node, keeps it there.
type macSet struct {
	entries table[none] // MAC, zero byte, owner
	count   int         // of MACs
	changed feed
}

func newMACSet() macSet { return macSet{entries: newTable[none]()} }

// macSetKey orders by MAC, then by owner.
func macSetKey(mac, owner string) []byte {
	key := make([]byte, 0, len(mac)+1+len(owner))
	return append(append(append(key, mac...), 0), owner...)
}

// has reports whether a MAC is on the list.
func (r *macSet) has(mac string) bool {
	for range r.entries.under(macSetKey(mac, "")) {
		return true
	}
	return false
}

// add puts an owner's MAC on the list by the entry at index.
func (r *macSet) add(mac, owner string, index uint64) {
	if !r.has(mac) {
		r.count++
		r.changed.note(index, mac)
	}
	r.entries.put(macSetKey(mac, owner), none{})
}

// remove takes a MAC that its owner put there off the list, by the entry at
// index, unless another owner keeps it.
func (r *macSet) remove(mac, owner string, index uint64) {
	r.entries.drop(macSetKey(mac, owner))
	if !r.has(mac) {
		r.count--
		r.changed.note(index, mac)
	}
}

// macs iterates over the list in order, every MAC with its first owner.
func (r *macSet) macs() iter.Seq2[string, string] {
	return func(yield func(mac, owner string) bool) {
		last := ""
		for key := range r.entries.all() {
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

// owners iterates over who keeps a MAC on the list, in order.
func (r *macSet) owners(mac string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for key := range r.entries.under(macSetKey(mac, "")) {
			if !yield(string(key[len(mac)+1:])) {
				return
			}
		}
	}
}
