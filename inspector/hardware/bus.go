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
