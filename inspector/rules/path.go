package rules

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/trivet-ha/trivet/inspector/document"
)

// Bounds of a search.
const (
	maxPath = 1024 // bytes of a path
	// maxVisits is how many values one search may look at: "a..b..c" looks at
	// some of them again and again.
	maxVisits = 200_000
	// maxFound is how many values one search may find on its way.
	maxFound = 20_000
)

// schemes are what the field of a condition may begin with, and whether it is
// about the node then.
var schemes = map[string]bool{"data": false, "node": true}

// field is where a condition finds its values.
type field struct {
	ofNode bool // else in the data
	text   string
	path   path
}

// parseField reads the field of a condition. An error is the contract's text.
func parseField(text string) (field, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		scheme, rest = "data", text
	}
	ofNode, known := schemes[scheme]
	if !known {
		return field{}, invalidf("Unsupported scheme for field: %s, valid values are node:// or data://",
			document.Clip(scheme))
	}
	p, err := parsePath(rest)
	if err != nil {
		return field{}, invalidf("Unable to parse field JSON path %s: %w", document.Clip(text), err)
	}
	return field{ofNode: ofNode, text: rest, path: p}, nil
}

// path is what published rules use of jsonpath-rw's dialect: the steps from the
// whole to the values.
type path []step

// step goes from a value to some that lie in it.
type step struct {
	deep  bool // .. stands before it: it is taken from all that lies further down as well
	kind  stepKind
	name  string // of stepKey
	index int    // of stepIndex
}

type stepKind byte

const (
	stepKey   stepKind = iota // a key; * is all of them
	stepIndex                 // [n]
	stepAll                   // [*]
)

// parsePath reads a path. What this version cannot follow is refused.
func parsePath(text string) (p path, err error) {
	if len(text) > maxPath {
		return nil, fmt.Errorf("it has %d bytes, allowed are %d", len(text), maxPath)
	}
	rest, fromRoot := strings.CutPrefix(text, "$")
	if text == "" {
		return nil, fmt.Errorf("it is empty; $ is the whole")
	}
	for rest != "" {
		s, after, ok := parseStep(rest, len(p) == 0 && !fromRoot)
		if !ok {
			return nil,
				fmt.Errorf(
					"it cannot be read from %s on; a path is made of keys, [n], [*], * and .., and a key that is no plain word stands in quotes",
					rest)
		}
		p, rest = append(p, s), after
	}
	return p, nil
}

// parseStep reads a step with the dots before it. The first of a path has none.
func parseStep(text string, first bool) (s step, rest string, ok bool) {
	rest, s.deep = strings.CutPrefix(text, "..")
	dotted := s.deep
	if !s.deep {
		rest, dotted = strings.CutPrefix(text, ".")
	}
	inside, bracket := strings.CutPrefix(rest, "[")
	switch {
	case first && dotted, !first && !dotted && !bracket:
		return s, rest, false
	case !bracket:
		s.name, rest, ok = parseKey(rest)
		return s, rest, ok
	}
	if end := strings.IndexByte(inside, ']'); end > 0 && isDigits(strings.TrimPrefix(inside[:end], "-")) {
		var err error
		s.kind = stepIndex
		s.index, err = strconv.Atoi(inside[:end])
		return s, inside[end+1:], err == nil
	}
	if rest, ok = strings.CutPrefix(inside, "*]"); ok {
		s.kind = stepAll
		return s, rest, true
	}
	if s.name, rest, ok = parseKey(inside); ok {
		rest, ok = strings.CutPrefix(rest, "]")
	}
	return s, rest, ok
}

// parseKey reads a key: *, a word, or anything in quotes but a backslash.
func parseKey(text string) (key, rest string, ok bool) {
	if strings.HasPrefix(text, "*") {
		return "*", text[1:], true
	}
	if strings.HasPrefix(text, "'") || strings.HasPrefix(text, `"`) {
		key, rest, ok = strings.Cut(text[1:], text[:1])
		return key, rest, ok && !strings.Contains(key, `\`)
	}
	end := strings.IndexFunc(text, func(r rune) bool {
		return r != '_' && r != '@' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[end:], end > 0 && text[0] != '-' && (text[0] < '0' || text[0] > '9')
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
		return document.Failed("A path looks at more than %d values", maxVisits)
	case found > maxFound:
		return document.Failed("A path finds more than %d values", maxFound)
	case s.visits%1024 == 0:
		return s.ctx.Err()
	}
	return nil
}

// find returns the values that a path finds in a document, in order.
func find(ctx context.Context, p path, in *document.Value) ([]*document.Value, error) {
	s, places := &search{ctx: ctx}, []*document.Value{in}
	for _, step := range p {
		var found []*document.Value
		for _, place := range places {
			var err error
			if found, err = s.takeStep(step, place, found); err != nil {
				return nil, err
			}
		}
		places = found
	}
	return places, nil
}

// takeStep adds to found where a step leads from a place, and then from all that lies
// further down if it is deep.
func (s *search) takeStep(step step, place *document.Value, found []*document.Value) ([]*document.Value, error) {
	reached, err := step.from(place)
	if err == nil {
		err = s.visit(len(found))
	}
	if err != nil {
		return nil, err
	}
	for _, v := range reached {
		found = append(found, v)
		if err := s.visit(len(found)); err != nil {
			return nil, err
		}
	}
	if !step.deep || !isContainer(place) {
		return found, nil
	}
	inside, err := place.Split()
	if err != nil {
		return nil, err
	}
	for _, kid := range inside.Values {
		if step.kind == stepKey && !isContainer(kid) { // nearly all of a document
			s.visits++
			continue
		}
		if found, err = s.takeStep(step, kid, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func isContainer(v *document.Value) bool {
	return v.Kind() == document.List || v.Kind() == document.Dict
}

// from returns where a step leads from a value.
func (step step) from(v *document.Value) ([]*document.Value, error) {
	switch k := v.Kind(); {
	case step.kind == stepIndex:
		return element(v, step.index)
	case step.kind == stepAll && (k == document.None || k == document.Float):
		return nil, document.Raise("TypeError", "object of type '%v' has no len()", k)
	case step.kind == stepAll && k != document.List:
		return []*document.Value{v}, nil // is taken for a list of itself
	case step.kind == stepKey && k != document.Dict:
		return nil, nil
	case step.kind == stepKey && step.name != "*":
		kid, err := v.Member(step.name)
		if kid == nil {
			return nil, err
		}
		return []*document.Value{kid}, err
	}
	inside, err := v.Split()
	if err != nil {
		return nil, err
	}
	return inside.Values, nil
}

// element is v[at], counted from the end if at is below 0.
func element(v *document.Value, at int) ([]*document.Value, error) {
	switch k := v.Kind(); k {
	case document.List:
		inside, err := v.Split()
		if err != nil {
			return nil, err
		}
		if at, err = within(len(inside.Values), at, "list"); at < 0 {
			return nil, err
		}
		return inside.Values[at : at+1], nil
	case document.Text:
		characters := []rune(v.Text())
		at, err := within(len(characters), at, "string")
		if at < 0 {
			return nil, err
		}
		return []*document.Value{document.OfText(string(characters[at]))}, nil
	case document.Dict:
		if inside, err := v.Split(); err != nil || len(inside.Values) <= at {
			return nil, err
		}
		return nil, document.Raise("KeyError", "%d", at)
	default:
		return nil, document.Raise("TypeError", "object of type '%v' has no len()", k)
	}
}

// within counts an index from the start; below 0 it is none. As in the original
// that is a failure only before the start.
func within(length, at int, of string) (int, error) {
	switch {
	case at >= length:
		return -1, nil
	case at < -length:
		return -1, document.Raise("IndexError", "%s index out of range", of)
	case at < 0:
		return at + length, nil
	}
	return at, nil
}
