package fsm

import (
	"cmp"
	"slices"
)

// MarkDifference is one option that members do not have in common. Who has not
// told of it, because his version does not know it, is on neither side.
type MarkDifference struct {
	Key   string   // section and name, as "raft.timing"
	Usual []string // server IDs of those who have what most have; none where no value has most
	Odd   []string // server IDs of the others
}

// MarkDifferences compares what the members say of their configurations, by key.
func (v View) MarkDifferences() []MarkDifference {
	told := make(map[string]map[uint64][]string) // key → mark → who, in the order of IDs
	for _, m := range v.AllConfigMarks() {
		for key, mark := range m.each {
			if told[key] == nil {
				told[key] = make(map[uint64][]string)
			}
			told[key][mark] = append(told[key][mark], m.Peer)
		}
	}
	var out []MarkDifference
	for key, by := range told { // order-free: the result is sorted
		if len(by) > 1 {
			out = append(out, split(key, by))
		}
	}
	slices.SortFunc(out, func(a, b MarkDifference) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// each yields the keys and their marks.
func (m ConfigMarks) each(yield func(key string, mark uint64) bool) {
	for _, s := range m.Sections {
		for _, o := range s.Marks {
			key := o.Name
			if s.Name != "" {
				key = s.Name + "." + o.Name
			}
			if !yield(key, o.Value) {
				return
			}
		}
	}
}

// split finds what most have.
func split(key string, by map[uint64][]string) MarkDifference {
	d := MarkDifference{Key: key}
	total, most := 0, uint64(0)
	for mark, who := range by { // order-free: of equals neither has a majority
		total += len(who)
		if len(who) > len(by[most]) {
			most = mark
		}
	}
	for mark, who := range by { // order-free: sorted below
		if mark == most && 2*len(who) > total {
			d.Usual = who
			continue
		}
		d.Odd = append(d.Odd, who...)
	}
	slices.Sort(d.Odd)
	return d
}
