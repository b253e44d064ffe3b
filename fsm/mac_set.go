package fsm

import (
	"bytes"
	"iter"
)

// roll is a list of MACs. A MAC is on it for as long as at least one owner, a
// port or a node, keeps it there.
type roll struct {
	entries table[none] // MAC, zero byte, owner
	count   int         // of MACs
	changed feed
}

func newRoll() roll { return roll{entries: newTable[none]()} }

// rollKey orders by MAC, then by owner.
func rollKey(mac, owner string) []byte {
	key := make([]byte, 0, len(mac)+1+len(owner))
	return append(append(append(key, mac...), 0), owner...)
}

// has reports whether a MAC is on the list.
func (r *roll) has(mac string) bool {
	for range r.entries.under(rollKey(mac, "")) {
		return true
	}
	return false
}

// add puts an owner's MAC on the list by the entry at index.
func (r *roll) add(mac, owner string, index uint64) {
	if !r.has(mac) {
		r.count++
		r.changed.note(index, mac)
	}
	r.entries.put(rollKey(mac, owner), none{})
}

// remove takes a MAC that its owner put there off the list, by the entry at
// index, unless another owner keeps it.
func (r *roll) remove(mac, owner string, index uint64) {
	r.entries.drop(rollKey(mac, owner))
	if !r.has(mac) {
		r.count--
		r.changed.note(index, mac)
	}
}

// macs iterates over the list in order, every MAC with its first owner.
func (r *roll) macs() iter.Seq2[string, string] {
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
func (r *roll) owners(mac string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for key := range r.entries.under(rollKey(mac, "")) {
			if !yield(string(key[len(mac)+1:])) {
				return
			}
		}
	}
}
