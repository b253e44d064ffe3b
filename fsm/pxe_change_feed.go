package fsm

import "slices"

// maxFeed is how many changes a feed remembers at the most, each of one MAC in
// one entry; it remembers at least half as many.
const maxFeed = 4096

// feed remembers which MACs joined or left a list lately, so that a driver that
// programs the list need not compare all of it. It is for readers alone: nothing
// that Apply decides depends on it, no snapshot holds it and no hash covers it, so
// a peer that restored a snapshot remembers less than the others and says so.
//
// It is two halves, each a list from the newest change back, so that copies
// share what they have in common: when one is full it takes the place of the
// older.
type feed struct {
	newer, older *change
	count        int    // of newer
	since        uint64 // what changed up to this index may be forgotten
}

// change is one in a feed. It never changes.
type change struct {
	index  uint64 // of the entry
	mac    string
	before *change
}

// note remembers a change by the entry at index. What a snapshot holds is loaded
// with index 0: the snapshot does not say which entries changed it.
func (f *feed) note(index uint64, mac string) {
	if index <= f.since {
		return
	}
	if f.count == maxFeed/2 {
		if f.older != nil {
			f.since = f.older.index
		}
		f.older, f.newer, f.count = f.newer, nil, 0
	}
	f.newer = &change{index: index, mac: mac, before: f.newer}
	f.count++
}

// after returns the MACs that changed after the entry at index, in order, up
// to the last one applied. It cannot tell of a past it forgot, nor of a future.
func (f feed) after(index, last uint64) (macs []string, ok bool) {
	if index < f.since || index > last {
		return nil, false
	}
	for _, half := range [...]*change{f.newer, f.older} {
		for c := half; c != nil && c.index > index; c = c.before {
			macs = append(macs, c.mac)
		}
	}
	slices.Sort(macs)
	return slices.Compact(macs), true
}

// forgetChanges begins the feeds again with the present state.
func (d *data) forgetChanges() {
	d.ports.denied.changed = feed{since: d.position.Index}
	d.nodes.whitelist.changed = feed{since: d.position.Index}
}
