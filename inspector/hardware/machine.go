package hardware

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Part is one thing that a machine is made of.
type Part struct {
	Kind string `json:"kind"` // the name of a row of the table, such as "disk"
	// ID is what the part cannot share with another: a serial number, a WWN, a MAC;
	// "" if it has none, and for what a machine has once.
	ID string `json:"id,omitempty"`
	// Place is where it is plugged in: a slot, a PCI address, a controller's port;
	// "" if it is not told.
	Place string `json:"place,omitempty"`
	// Facts are what the ramdisk says about it, by name, such as "size"; none is "".
	Facts map[string]string `json:"facts,omitempty"`
	seat  string            // tells the place from all others, if Place does not
	said  string            // Facts in one text, which are compared with those of thousands
	ids   []identifier      // all that the part does not share; ID is the first
}

// identifier is one thing that a part says of itself alone, such as its WWN.
type identifier struct{ name, text string }

// identify adds an identifier if it is told.
func (p *Part) identify(name, text string) {
	if !blank(text) {
		p.ids = append(p.ids, identifier{name, text})
	}
}

// Machine is what one document tells of a machine.
type Machine struct {
	// Parts are sorted by kind, in the order of the table, then by ID and place.
	Parts []Part
	told  map[string]bool // the kinds of which the document says something
	// crowded are the kinds with more than maxParts parts, of which none is read: a part of them
	// would be others at the next boot, which lists them in another order.
	crowded map[string]bool
}

// Of reads the parts of a machine from its document, as the ramdisk sent it or as
// the hooks left it.
func Of(document []byte) (Machine, error) {
	d, err := decodeDocument(document)
	if err != nil {
		return Machine{}, err
	}
	m := Machine{told: make(map[string]bool), crowded: make(map[string]bool)}
	for _, k := range kinds {
		parts, told := k.read(d)
		if len(parts) > maxParts {
			parts, told, m.crowded[k.name] = nil, false, true
		}
		m.told[k.name] = told
		for i := range parts {
			parts[i].Kind, parts[i].said = k.name, said(parts[i].Facts)
		}
		m.Parts = append(m.Parts, sorted(identified(parts))...)
	}
	return m, nil
}

// said writes facts as a text that no others share: a fact is one line.
func said(facts map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		b.WriteString(name + "\n" + facts[name] + "\n")
	}
	return b.String()
}

// Kind returns the parts of a kind.
func (m Machine) Kind(name string) []Part {
	from := slices.IndexFunc(m.Parts, func(p Part) bool { return p.Kind == name })
	if from < 0 {
		return nil
	}
	to := from
	for to < len(m.Parts) && m.Parts[to].Kind == name {
		to++
	}
	return m.Parts[from:to]
}

// identified takes identifiers from parts that share them, such as the memory modules
// of makers who write 00000000 into all: these are known by what else they tell, or by
// their place alone.
func identified(parts []Part) []Part {
	seen := make(map[identifier]int, len(parts))
	for _, p := range parts {
		for _, id := range p.ids {
			seen[id]++
		}
	}
	for i := range parts {
		p := &parts[i]
		p.ids = slices.DeleteFunc(p.ids, func(id identifier) bool { return seen[id] > 1 })
		if len(p.ids) > 0 {
			p.ID = p.ids[0].text
		}
	}
	return parts
}

// sameID reports whether two parts share an identifier and differ in none, and whether
// both tell one by which that can be said.
func sameID(a, b Part) (same, told bool) {
	same = true
	for _, x := range a.ids {
		for _, y := range b.ids {
			if x.name == y.name {
				same, told = same && x.text == y.text, true
			}
		}
	}
	return same && told, told
}

// blank reports whether a text is what makers write instead of a serial number.
func blank(id string) bool {
	switch strings.ToLower(id) {
	case "none", "n/a", "na", "unknown", "not specified", "to be filled by o.e.m.", "default string", "empty", "no dimm":
		return true
	}
	return strings.Trim(id, "0xX:-. ") == ""
}

func sorted(parts []Part) []Part {
	slices.SortStableFunc(parts, func(a, b Part) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Place, b.Place))
	})
	return parts
}
