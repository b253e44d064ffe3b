package rules

import (
	"context"
	"slices"

	"github.com/trivet-ha/trivet/inspector"
)

// Bounds of a search.
const (
	// maxVisits is how many values one search may look at: "a..b..c" looks at
	// some of them again and again.
	maxVisits = 200_000
	// maxFound is how many values one search may find on its way.
	maxFound = 20_000
)

// path finds values.
type path interface {
	find(s *search, from *datum) ([]*datum, error)
}

// datum is a value and what holds it.
type datum struct {
	*value
	up *datum // nil: the whole
}

// search is one search on its way.
type search struct {
	ctx    context.Context
	visits int
}

// visit counts values that are looked at, or found.
func (s *search) visit(found int) error {
	s.visits++
	switch {
	case s.visits > maxVisits:
		return inspector.Failed("A path looks at more than %d values", maxVisits)
	case found > maxFound:
		return inspector.Failed("A path finds more than %d values", maxFound)
	case s.visits%1024 == 0:
		return s.ctx.Err()
	}
	return nil
}

// find returns the values that a path finds in a document, in order.
func find(ctx context.Context, p path, in *value) ([]*value, error) {
	data, err := p.find(&search{ctx: ctx}, &datum{value: in})
	if err != nil {
		return nil, err
	}
	values := make([]*value, len(data))
	for i, d := range data {
		if d == nil { // the original finds the parent of the whole, which is None
			return nil, raise("AttributeError", "'NoneType' object has no attribute 'value'")
		}
		values[i] = d.value
	}
	return values, nil
}

// each collects what a path finds from each of several places.
func each(s *search, p path, places []*datum) (found []*datum, err error) {
	for _, place := range places {
		more, err := one(s, p, place, len(found))
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

// one returns what a path finds from a place, besides so many that are found
// already.
func one(s *search, p path, place *datum, already int) ([]*datum, error) {
	if place == nil {
		return nil, raise("AttributeError", "'NoneType' object has no attribute 'value'")
	}
	found, err := p.find(s, place)
	if err == nil {
		err = s.visit(already + len(found))
	}
	return found, err
}

type (
	root   struct{} // $
	this   struct{} // `this`
	parent struct{} // `parent`
	// child is left.right and left[right].
	child struct{ left, right path }
	// descendants is left..right.
	descendants struct{ left, right path }
	// union is left|right.
	union struct{ left, right path }
	// where keeps what left finds if right finds something in it.
	where struct{ left, right path }
	// fields are names of a dict; one of them being * means all.
	fields []string
	// element is [n].
	element int
	// slice is [start:end], and [*] if both are nil.
	slice struct{ start, end *int }
)

func (root) find(_ *search, from *datum) ([]*datum, error) {
	for from.up != nil {
		from = from.up
	}
	return []*datum{from}, nil
}

func (this) find(_ *search, from *datum) ([]*datum, error) { return []*datum{from}, nil }

func (parent) find(_ *search, from *datum) ([]*datum, error) { return []*datum{from.up}, nil }

func (p child) find(s *search, from *datum) ([]*datum, error) {
	places, err := p.left.find(s, from)
	if err != nil {
		return nil, err
	}
	return each(s, p.right, places)
}

func (p union) find(s *search, from *datum) ([]*datum, error) {
	found, err := p.left.find(s, from)
	if err != nil {
		return nil, err
	}
	more, err := p.right.find(s, from)
	return slices.Concat(found, more), err
}

func (p where) find(s *search, from *datum) ([]*datum, error) {
	places, err := p.left.find(s, from)
	if err != nil {
		return nil, err
	}
	var kept []*datum
	for _, place := range places {
		found, err := one(s, p.right, place, 0)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			kept = append(kept, place)
		}
	}
	return kept, nil
}

func (p descendants) find(s *search, from *datum) ([]*datum, error) {
	places, err := p.left.find(s, from)
	if err != nil {
		return nil, err
	}
	var found []*datum
	for _, place := range places {
		if found, err = p.below(s, place, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// below adds what right finds at a place, then what it finds further down.
func (p descendants) below(s *search, place *datum, found []*datum) ([]*datum, error) {
	more, err := one(s, p.right, place, 0)
	if err != nil {
		return nil, err
	}
	found = append(found, more...)
	if err := s.visit(len(found)); err != nil {
		return nil, err
	}
	if k := place.kind(); k != kindList && k != kindDict {
		return found, nil
	}
	inside, err := place.split()
	if err != nil {
		return nil, err
	}
	_, named := p.right.(fields)
	for _, kid := range inside.values {
		if k := kid.kind(); named && k != kindList && k != kindDict { // nearly all of a document
			s.visits++
			continue
		}
		if found, err = p.below(s, &datum{kid, place}, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (p fields) find(s *search, from *datum) ([]*datum, error) {
	if err := s.visit(0); err != nil || from.kind() != kindDict {
		return nil, err
	}
	if slices.Contains(p, "*") {
		inside, err := from.split()
		if err != nil {
			return nil, err
		}
		return s.all(from, inside.values)
	}
	var found []*datum
	for _, name := range p {
		kid, err := from.member(name)
		if err != nil {
			return nil, err
		}
		if kid != nil {
			found = append(found, &datum{kid, from})
		}
	}
	return found, nil
}

// all makes data of what one place holds.
func (s *search) all(place *datum, values []*value) ([]*datum, error) {
	found := make([]*datum, 0, min(len(values), maxFound))
	for _, v := range values {
		if err := s.visit(len(found) + 1); err != nil {
			return nil, err
		}
		found = append(found, &datum{v, place})
	}
	return found, nil
}

func (p element) find(s *search, from *datum) ([]*datum, error) {
	if err := s.visit(0); err != nil {
		return nil, err
	}
	switch k := from.kind(); k {
	case kindList:
		return p.ofList(from)
	case kindText:
		return p.ofText(from)
	case kindDict:
		if n, err := from.size(); err != nil || n <= int(p) {
			return nil, err
		}
		return nil, raise("KeyError", "%d", p)
	default:
		return nil, raise("TypeError", "object of type '%v' has no len()", k)
	}
}

func (p element) ofList(from *datum) ([]*datum, error) {
	inside, err := from.split()
	if err != nil {
		return nil, err
	}
	at, ok := index(len(inside.values), int(p))
	switch {
	case ok:
		return []*datum{{inside.values[at], from}}, nil
	case p < 0:
		return nil, raise("IndexError", "list index out of range")
	default:
		return nil, nil
	}
}

func (p element) ofText(from *datum) ([]*datum, error) {
	text := []rune(from.text())
	at, ok := index(len(text), int(p))
	switch {
	case ok:
		return []*datum{{ofText(string(text[at])), from}}, nil
	case p < 0:
		return nil, raise("IndexError", "string index out of range")
	default:
		return nil, nil
	}
}

func (p slice) find(s *search, from *datum) ([]*datum, error) {
	if err := s.visit(0); err != nil {
		return nil, err
	}
	var values []*value
	switch k := from.kind(); k {
	case kindList:
		inside, err := from.split()
		if err != nil {
			return nil, err
		}
		values = inside.values
	case kindDict, kindBool, kindInt, kindText: // is taken for a list of itself
		list := slices.Concat([]byte("["), from.raw, []byte("]"))
		values = []*value{from.value}
		from = &datum{&value{raw: list, is: kindList, left: from.left, kids: &kids{values: values}}, from.up}
	default:
		return nil, raise("TypeError", "object of type '%v' has no len()", k)
	}
	return s.all(from, sliced(values, p.start, p.end))
}
