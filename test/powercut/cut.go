package powercut

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
)

// ways are what may be on the disk of that which was not synced.
var ways = []struct {
	name  string
	block int64 // of a write, each block may be there or not; 0: it is there wholly or not at all
}{
	{"nothing", 0}, {"all", 0}, {"up to one", 0}, {"any", 0}, {"any pages", 4096}, {"any sectors", 512},
	{"all but one", 0}, {"one alone", 0},
}

// cut is a power cut.
type cut struct {
	rand  *rand.Rand
	keep  map[int]bool // changes that are on the disk, by number
	block int64
}

// waiting returns the numbers of the changes that may not be on the disk, in their order.
func (d *disk) waiting() (all []int) {
	for _, r := range d.renames {
		if !r.synced {
			all = append(all, r.seq)
		}
	}
	seen := make(map[*node]bool)
	var visit func(*node)
	visit = func(n *node) {
		if seen[n] {
			return
		}
		seen[n] = true
		for _, w := range n.writes {
			all = append(all, w.seq)
		}
		for _, below := range sorted(n.names) {
			visit(below)
		}
		for _, below := range sorted(n.stored) {
			visit(below)
		}
	}
	visit(d.top)
	slices.Sort(all)
	return all
}

// newest is how many changes are those that matter most: others wait for a sync that never comes.
const newest = 6

// cut returns what a power cut leaves, in a way.
func (d *disk) cut(way int, r *rand.Rand) tree {
	c := cut{rand: r, keep: make(map[int]bool), block: ways[way].block}
	all := d.waiting()
	one := 0
	if last := all[max(0, len(all)-newest):]; r.IntN(2) == 0 && len(last) > 0 {
		one = last[r.IntN(len(last))]
	} else if len(all) > 0 {
		one = all[r.IntN(len(all))]
	}
	for _, seq := range all {
		keep := seq == one
		switch ways[way].name {
		case "nothing":
			keep = false
		case "all":
			keep = true
		case "up to one":
			keep = seq <= one
		case "all but one":
			keep = seq != one
		case "one alone":
		default:
			keep = r.IntN(2) == 0
		}
		c.keep[seq] = keep
	}
	names := make(map[*node]map[string]*node)
	of := func(n *node) map[string]*node {
		if names[n] == nil {
			names[n] = maps.Clone(n.stored)
		}
		return names[n]
	}
	for _, change := range d.renames {
		if change.synced || c.keep[change.seq] {
			for _, s := range change.set {
				s.store(of(s.in))
			}
		}
	}
	out := make(tree)
	d.walk(out, d.top, "", of, c.content)
	return out
}

// content returns what is on the disk of a file.
func (c cut) content(n *node) []byte {
	if c.block > 0 && len(n.writes) > 0 {
		return c.torn(n)
	}
	text := bytes.Clone(n.synced)
	for _, w := range n.writes {
		if c.keep[w.seq] {
			text = w.on(text)
		}
	}
	return text
}

// torn returns a file of which each block is as it was after any of the writes, and whose
// length is that after any.
func (c cut) torn(n *node) []byte {
	size := int64(len(n.synced))
	lengths, end := []int64{size}, size
	for _, w := range n.writes {
		if w.data == nil {
			size = w.at
		} else {
			size = max(size, w.at+int64(len(w.data)))
		}
		lengths, end = append(lengths, size), max(end, size)
	}
	text := resized(bytes.Clone(n.synced), end)
	for from := int64(0); from < end; from += c.block {
		to := min(from+c.block, end)
		var touch []write
		for _, w := range n.writes {
			if w.data == nil && w.at < to || w.data != nil && w.at < to && w.at+int64(len(w.data)) > from {
				touch = append(touch, w)
			}
		}
		if len(touch) == 0 {
			continue
		}
		for _, w := range touch[:c.rand.IntN(len(touch)+1)] {
			w.within(text, from, to)
		}
	}
	return resized(text, lengths[c.rand.IntN(len(lengths))])
}

// within does what the write does to a part of a text.
func (w write) within(text []byte, from, to int64) {
	if w.data == nil {
		clear(text[max(from, w.at):to])
		return
	}
	from, to = max(from, w.at), min(to, w.at+int64(len(w.data)))
	copy(text[from:to], w.data[from-w.at:])
}
