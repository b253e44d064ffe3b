package fsm

import (
	"encoding/binary"
	"slices"
)

// maxFeed is how many changes a feed remembers, each of one MAC in one entry.
const maxFeed = 4096

// feed remembers which MACs joined or left a list lately, so that whoever
// programs the list somewhere need not compare all of it. It is for readers
// alone: nothing that Apply decides depends on it, no snapshot holds it and no
// hash covers it, so a peer that restored a snapshot remembers less than the
// others and says so.
type feed struct {
	changes table[none] // index, MAC
	since   uint64      // what changed up to this index may be forgotten
}

func newFeed(since uint64) feed { return feed{changes: newTable[none](), since: since} }

// note remembers a change by the entry at index. What a snapshot holds is
// loaded with index 0: it was changed by entries that nobody can tell.
func (f *feed) note(index uint64, mac string) {
	if index <= f.since {
		return
	}
	f.changes.put(append(key64(index), mac...), none{})
	for f.changes.size() > maxFeed {
		oldest, _, _ := f.changes.first()
		f.changes.drop(oldest)
		f.since = binary.BigEndian.Uint64(oldest)
	}
}

// after returns the MACs that changed after the entry at index, in order, up
// to the last one applied. It cannot tell of a past it forgot, nor of a future.
func (f feed) after(index, last uint64) (macs []string, ok bool) {
	if index < f.since || index > last {
		return nil, false
	}
	for key := range f.changes.descending(nil) {
		if binary.BigEndian.Uint64(key) <= index {
			break
		}
		macs = append(macs, string(key[8:]))
	}
	slices.Sort(macs)
	return slices.Compact(macs), true
}

// forgetChanges begins the feeds anew with the present state.
func (d *data) forgetChanges() {
	d.ports.denied.changed = newFeed(d.position.Index)
	d.nodes.whitelist.changed = newFeed(d.position.Index)
}
