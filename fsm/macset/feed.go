package macset

import (
	"slices"

	"github.com/trivet-ha/trivet/fsm/valid"
)

// MaxChanges is how many changes a feed remembers at the most, each of one MAC in
// one entry; it remembers at least half as many.
const MaxChanges = 4096

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

// noteChange remembers a change by the entry at index. What a snapshot holds is loaded
// with index 0: the snapshot does not say which entries changed it.
func (f *feed) noteChange(index uint64, mac string) {
	if index <= f.since {
		return
	}
	if f.count == MaxChanges/2 {
		if f.older != nil {
			f.since = f.older.index
		}
		f.older, f.newer, f.count = f.newer, nil, 0
	}
	f.newer = &change{index: index, mac: mac, before: f.newer}
	f.count++
}

// changedAfter returns the MACs that changed after the entry at index, in order, up
// to the last one applied. It cannot tell of a past it forgot, nor of a future.
func (f feed) changedAfter(index, last uint64) (macs []string, ok bool) {
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

// check verifies that a list's changes are in order and within bounds.
func (f feed) check(p *valid.Problems, name string, last uint64) {
	p.Want(f.since <= last, "changes of the %s are remembered from %d on, after the last entry", name, f.since)
	for i, half := range [...]*change{f.newer, f.older} {
		n := 0
		for c := half; c != nil; c = c.before {
			p.Want(f.since <= c.index && c.index <= last, "a change of the %s by entry %d is told before one by %d", name,
				c.index, last)
			last = c.index
			n++
		}
		p.Want(n <= MaxChanges/2 && (i > 0 || n == f.count), "half %d of the changes of the %s has %d, counted are %d", i,
			name, n, f.count)
	}
}
