package hardware

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What may have become of a part.
const (
	Came    = "came"
	Went    = "went"
	Moved   = "moved"
	Changed = "changed" // a fact of it
)

// Change is one difference between two documents of a machine.
type Change struct {
	What string `json:"change"` // Came, Went, Moved or Changed
	Part Part   `json:"part"`   // as the newer document tells it; the older one's if it went
	Fact string `json:"fact,omitempty"`
	// Was and Is are the fact's values, and the places of what moved.
	Was string `json:"was,omitempty"`
	Is  string `json:"is,omitempty"`
}

// Compare tells what changed from one document of a machine to a newer one, sorted
// by kind. A kind, a place or a fact that one of them does not tell is no change, nor is
// what became of a kind of which one tells more parts than are read.
func Compare(older, newer Machine) []Change {
	var changes []Change
	older = renumber(older, newer)
	for _, k := range kinds {
		if !older.told[k.name] || !newer.told[k.name] {
			continue
		}
		changes = append(changes, compareParts(older.Kind(k.name), newer.Kind(k.name))...)
	}
	all := slices.Clone(changes)
	return slices.DeleteFunc(changes, func(c Change) bool { return slices.ContainsFunc(all, c.sameAs) })
}

// sameAs reports whether another change tells this one, too, and more of it: a cable
// comes and goes with its interface, a card with the interface or the NVMe disk that it
// is, and the size of the memory with a module.
func (c Change) sameAs(other Change) bool {
	switch p := other.Part; c.Part.Kind {
	case cable:
		return p.Kind == networkInterface && p.ID == c.Part.ID && c.What == other.What && (c.What == Came || c.What == Went)
	case card:
		at := p.Kind == networkInterface && p.Place == c.Part.Place ||
			p.Kind == disk && strings.Contains(p.Place, "pci-"+c.Part.Place+"-nvme-")
		return at && c.What == other.What && c.What != Changed
	case memory:
		return p.Kind == memoryModule && (other.Fact == "size" || other.What == Came || other.What == Went)
	default:
		return false
	}
}

// compareParts pairs the parts of one kind and tells how those of a pair differ.
// A pair shares an identifier; else, of parts that both tell none of one kind, place
// and facts, or the facts, or the place: cards behind a bridge move when its number changes.
func compareParts(older, newer []Part) []Change {
	var changes []Change
	newer = slices.Clone(newer) // of which the paired are taken out
	for _, same := range [...]func(a, b Part) bool{
		func(a, b Part) bool { same, _ := sameID(a, b); return same },
		func(a, b Part) bool {
			return nameless(a, b) && a.seated() == b.seated() && a.said == b.said
		},
		func(a, b Part) bool { return nameless(a, b) && a.said != "" && a.said == b.said },
		func(a, b Part) bool { return nameless(a, b) && a.seated() == b.seated() },
	} {
		var left []Part
		for _, was := range older {
			i := slices.IndexFunc(newer, func(is Part) bool { return same(was, is) })
			if i < 0 {
				left = append(left, was)
				continue
			}
			changes = append(changes, differences(was, newer[i])...)
			newer = slices.Delete(newer, i, i+1)
		}
		older = left
	}
	for _, p := range older {
		changes = append(changes, Change{What: Went, Part: p})
	}
	for _, p := range newer {
		changes = append(changes, Change{What: Came, Part: p})
	}
	return changes
}

// nameless reports whether no identifier tells two parts apart.
func nameless(a, b Part) bool { _, told := sameID(a, b); return !told }

// differences tells how a part that both documents have differs.
func differences(was, is Part) []Change {
	var changes []Change
	moved := was.Place != "" && is.Place != "" && was.seated() != is.seated()
	if moved {
		changes = append(changes, Change{What: Moved, Part: is, Was: was.Place, Is: is.Place})
	}
	for _, name := range slices.Sorted(maps.Keys(is.Facts)) {
		before, after := was.Facts[name], is.Facts[name]
		if before == "" || before == after || moved && is.Kind == cable {
			continue // another port has another name and VLAN
		}
		changes = append(changes, Change{What: Changed, Part: is, Fact: name, Was: before, Is: after})
	}
	return changes
}

// seated is what tells the part's place from all others.
func (p Part) seated() string { return cmp.Or(p.seat, p.Place) }

// String says the change in a sentence.
func (c Change) String() string {
	switch part := c.Part.Name(); c.What {
	case Moved:
		return fmt.Sprintf("%s moved from %s to %s", part, c.Was, c.Is)
	case Changed:
		was, is := shown(c.Fact, c.Was), shown(c.Fact, c.Is)
		if was == is {
			was, is = c.Was, c.Is // they differ by less than is shown
		}
		return fmt.Sprintf("%s changed: %s %s is %s now", part, c.Fact, was, is)
	default:
		if about := c.Part.about(); about != "" {
			return fmt.Sprintf("%s %s (%s)", part, c.What, about)
		}
		return part + " " + c.What
	}
}

// Name tells the part from others of its machine: kind, and ID or else place.
func (p Part) Name() string {
	switch {
	case p.ID != "":
		return p.Kind + " " + p.ID
	case p.Place != "":
		return p.Kind + " at " + p.Place
	default:
		return p.Kind
	}
}

// about is place and facts in one line.
func (p Part) about() string {
	var words []string
	if p.ID != "" && p.Place != "" {
		words = append(words, "at "+p.Place)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Facts)) {
		if text := p.Facts[name]; !slices.Contains(strings.Fields(p.Place), text) { // a cable's place is switch and port
			words = append(words, name+" "+shown(name, text))
		}
	}
	return strings.Join(words, ", ")
}

// shown is a fact's text as a person reads it: a size in GiB if it is a whole
// number of them, as memory's are, and else in GB, as makers of disks count.
func shown(fact, text string) string {
	size, err := strconv.ParseUint(text, 10, 64)
	switch {
	case fact != "size" || err != nil || size < 1<<30:
		return text
	case size%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", size>>30)
	default:
		return fmt.Sprintf("%.1f GB", float64(size)/1e9)
	}
}

// pciAddress is a PCI address in a place: domain, bus, and device with function.
var pciAddress = regexp.MustCompile(`\b([0-9a-f]{4,5}):([0-9a-f]{2}):([0-9a-f]{2}\.[0-7])\b`)

// bus is a PCI bus by its number, which firmware and kernel give in the order in which
// they find the bridges: one that came or went changes the numbers behind it.
type bus struct {
	domain string
	number int64
}

// busOf returns the bus of a place, and the place without the bus's number.
func busOf(place string) (b bus, rest string, ok bool) {
	m := pciAddress.FindStringSubmatchIndex(place)
	if m == nil {
		return bus{}, "", false
	}
	number, err := strconv.ParseInt(place[m[4]:m[5]], 16, 64)
	return bus{place[m[2]:m[3]], number}, place[:m[4]] + place[m[5]:], err == nil
}

// renumber seats the parts of an older document where they are by the numbers that the
// buses have in a newer one. It does so only if bridges came or went, each bus that has
// a part known in both documents keeps its order, and none changed by more than there
// are bridges more or less: all else is a part that moved.
func renumber(older, newer Machine) Machine {
	more := int64(bridges(newer) - bridges(older))
	shifts := make(map[bus]int64)
	if more == 0 || !older.told[card] || !newer.told[card] || !anchors(shifts, older, newer) {
		return older
	}
	order := slices.SortedFunc(maps.Keys(shifts), func(a, b bus) int {
		return cmp.Or(cmp.Compare(a.domain, b.domain), cmp.Compare(a.number, b.number))
	})
	for i, b := range order {
		to := b.number + shifts[b]
		if shifts[b] < min(0, more) || shifts[b] > max(0, more) ||
			i > 0 && order[i-1].domain == b.domain && to <= order[i-1].number+shifts[order[i-1]] {
			return older
		}
	}
	older.Parts = slices.Clone(older.Parts)
	for i := range older.Parts {
		p := &older.Parts[i]
		b, _, ok := busOf(p.Place)
		if !ok || p.Kind == cable {
			continue
		}
		var shift int64 // that of the bus, or else of the nearest known one before it
		for _, known := range order {
			if known.domain == b.domain && known.number <= b.number {
				shift = shifts[known]
			}
		}
		p.seat = pciAddress.ReplaceAllString(p.Place, fmt.Sprintf("${1}:%02x:${3}", b.number+shift))
	}
	return older
}

// bridges counts the PCI bridges.
func bridges(m Machine) (n int) {
	for _, p := range m.Kind(card) {
		if strings.HasPrefix(p.Facts["class"], "0604") {
			n++
		}
	}
	return n
}

// anchors adds how the numbers of those buses changed that have a part by which they are
// known: one with an identifier, or the only card that tells what it tells. It returns
// false if two parts contradict each other.
func anchors(shifts map[bus]int64, older, newer Machine) bool {
	for _, was := range older.Parts {
		from, before, ok := busOf(was.Place)
		if !ok || was.Kind == cable {
			continue
		}
		known := func(is Part) bool {
			same, _ := sameID(was, is)
			return same || was.Kind == card && was.said == is.said
		}
		is := found(newer.Kind(was.Kind), known)
		if len(is) != 1 || len(found(older.Kind(was.Kind), known)) != 1 {
			continue
		}
		to, after, ok := busOf(is[0].Place)
		if !ok || before != after {
			continue // it moved
		}
		if shift, twice := shifts[from]; twice && shift != to.number-from.number {
			return false
		}
		shifts[from] = to.number - from.number
	}
	return true
}

func found(parts []Part, is func(Part) bool) (found []Part) {
	for _, p := range parts {
		if is(p) {
			found = append(found, p)
		}
	}
	return found
}
