package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind is the kind of a value, by its Python type.
type Kind byte

// The kinds. What is missing is None.
const (
	None Kind = iota
	Bool
	Int
	Float
	Text
	List
	Dict
)

// String names the Python type as exceptions do.
func (k Kind) String() string {
	return [...]string{"NoneType", "bool", "int", "float", "str", "list", "dict"}[k]
}

// InWords names the kind in messages about what a ramdisk sent.
func (k Kind) InWords() string {
	return [...]string{"nothing", "true or false", "a number", "a number", "text", "a list", "an object"}[k]
}

// Value is a JSON value that is split at its first use: most callers read a few
// values of a large document. It belongs to one goroutine until it is settled. A
// nil Value is what is missing.
type Value struct {
	raw  json.RawMessage // checked
	kind Kind
	left *int  // values that may yet be looked at, shared by all that lie in one; nil: any number
	seen *seen // what was read of it
}

// seen is what was read of a value.
type seen struct {
	parts *Parts  // of a list or dict that was split
	num   *number // of a number, or of what is none in JSON
	said  string  // of a text, unless it is empty
}

// Parts are what a list or a dict holds.
type Parts struct {
	Names  []string // of a dict, in the order in which each came first
	Values []*Value
	at     map[string]int // of large dicts
}

// indexed is from how many names on a dict is searched by a map.
const indexed = 16

// Checked makes a value of text that is known to be JSON.
func Checked(raw json.RawMessage) *Value {
	raw = bytes.TrimSpace(raw)
	return &Value{raw: raw, kind: kindOf(raw)}
}

// Bounded is Checked for rules: no more than 500,000 of the values in it are looked at.
func Bounded(raw json.RawMessage) *Value {
	v, left := Checked(raw), maxValues
	v.left = &left
	return v
}

// Of makes a value of what encoding/json takes.
func Of(value any) (*Value, error) {
	raw, err := encode(value)
	if err != nil {
		return nil, err
	}
	return Checked(raw), nil
}

// OfText makes a value of a text.
func OfText(text string) *Value { return &Value{kind: Text, raw: Quote(text), seen: &seen{said: text}} }

func ofInt(i *big.Int) *Value {
	return &Value{kind: Int, raw: json.RawMessage(i.String()), seen: &seen{num: &number{whole: i}}}
}

func ofFloat(f float64) *Value {
	n := &number{float: f}
	return &Value{kind: Float, raw: json.RawMessage(n.String()), seen: &seen{num: n}}
}

func kindOf(raw json.RawMessage) Kind {
	switch raw[0] {
	case 'n':
		return None
	case 't', 'f':
		return Bool
	case '"':
		return Text
	case '[':
		return List
	case '{':
		return Dict
	}
	if bytes.ContainsAny(raw, ".eE") {
		return Float
	}
	return Int
}

// Kind returns the value's kind.
func (v *Value) Kind() Kind {
	if v == nil {
		return None
	}
	return v.kind
}

// Raw returns the value as it is written, nil if it is missing.
func (v *Value) Raw() json.RawMessage {
	if v == nil {
		return nil
	}
	return v.raw
}

// Text returns a string's content, "" for anything else. For rules it is read once: a
// hundred of them compare the same ones.
func (v *Value) Text() string {
	if v.Kind() != Text || len(v.raw) == len(`""`) {
		return ""
	}
	if v.seen != nil {
		return v.seen.said
	}
	text := unquote(v.raw)
	if v.left != nil {
		v.seen = &seen{said: text}
	}
	return text
}

// unquote reads a string. Nearly none has an escape.
func unquote(raw json.RawMessage) string {
	if inside := raw[1 : len(raw)-1]; bytes.IndexByte(inside, '\\') < 0 && utf8.Valid(inside) {
		return string(inside)
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return string(raw) // a checked string always decodes
	}
	return text
}

// Empty reports whether Python takes a value for false: null, "", [], {}, false,
// zero, and what is missing.
func (v *Value) Empty() bool {
	switch v.Kind() {
	case None:
		return true
	case Bool:
		return v.raw[0] == 'f'
	case Int, Float:
		before, _, _ := strings.Cut(strings.ToLower(string(v.raw)), "e")
		return !strings.ContainsAny(before, "123456789")
	case Text:
		return len(v.raw) == len(`""`)
	default:
		return len(bytes.TrimSpace(v.raw[1:len(v.raw)-1])) == 0
	}
}

// item is one item of a list or dict as it is written.
type item struct{ name, value json.RawMessage } // no name: of a list

// maxValues is how many values of one document rules look at one by one. What a
// ramdisk sends has some thousand.
const maxValues = 500_000

// Split looks into a list or dict.
func (v *Value) Split() (*Parts, error) {
	if v.seen != nil {
		return v.seen.parts, nil
	}
	most := math.MaxInt
	if v.left != nil {
		most = *v.left
	}
	var few [16]item // nearly no list or dict has more
	items, s := few[:0], scanner{text: v.raw}
	take := func(name, value []byte) error {
		if len(items) == most {
			return Failed("The data has more than %d values for rules to look at", maxValues)
		}
		items = append(items, item{name, value})
		return nil
	}
	var err error
	if v.kind == Dict {
		err = s.object(take)
	} else {
		err = s.array(take)
	}
	if err != nil {
		return nil, asProblem(err)
	}
	if v.left != nil {
		*v.left -= len(items)
	}
	v.seen = &seen{parts: v.assembled(items)}
	return v.seen.parts, nil
}

// asProblem is what stops the reading of text that is known to be JSON: its depth.
func asProblem(err error) error {
	if _, ok := errors.AsType[*Problem](err); ok {
		return err
	}
	return Failed("The data cannot be read: %v", err)
}

// assembled makes the parts of the items. Of a name that occurs twice the last value
// counts, at the place of the first.
func (v *Value) assembled(items []item) *Parts {
	inside := make([]Value, len(items))
	p := &Parts{Values: make([]*Value, 0, len(items))}
	if v.kind == Dict {
		p.Names = make([]string, 0, len(items))
		if len(items) > indexed {
			p.at = make(map[string]int, len(items))
		}
	}
	for i, it := range items {
		inside[i] = Value{raw: it.value, kind: kindOf(it.value), left: v.left}
		if v.kind == Dict {
			name := unquote(it.name)
			if first, twice := p.find(name); twice {
				p.Values[first] = &inside[i]
				continue
			}
			if p.at != nil {
				p.at[name] = len(p.Names)
			}
			p.Names = append(p.Names, name)
		}
		p.Values = append(p.Values, &inside[i])
	}
	return p
}

// find returns where a name is.
func (p *Parts) find(name string) (at int, ok bool) {
	if p.at != nil {
		at, ok = p.at[name]
		return at, ok
	}
	at = slices.Index(p.Names, name)
	return at, at >= 0
}

// Get returns what a dict holds under a name, nil if nothing. Missing parts hold
// nothing.
func (p *Parts) Get(name string) *Value {
	if p == nil {
		return nil
	}
	if i, ok := p.find(name); ok {
		return p.Values[i]
	}
	return nil
}

// Member returns what a dict holds under a name, nil if nothing.
func (v *Value) Member(name string) (*Value, error) {
	p, err := v.Split()
	return p.Get(name), err
}

// Members looks into a value that must be a dict.
func (v *Value) Members() (*Parts, error) {
	if v.Kind() != Dict {
		return nil, fmt.Errorf("expected an object, got %s", v.Kind().InWords())
	}
	return v.Split()
}

// Elements returns the first elements of a list, up to most of them, and how many it
// has: a list of commas and digits takes twelve times its size when all of it is
// split. Of another kind it has none.
func (v *Value) Elements(most int) (elements []*Value, all int, err error) {
	if v.Kind() != List {
		return nil, 0, nil
	}
	inside := make([]Value, 0, min(most, 8)) // most lists are short
	s := scanner{text: v.raw}
	err = s.array(func(_, value []byte) error {
		if all++; all <= most {
			inside = append(inside, Value{raw: value, kind: kindOf(value), left: v.left})
		}
		return nil
	})
	if err != nil {
		return nil, 0, asProblem(err)
	}
	elements = make([]*Value, len(inside))
	for i := range inside {
		elements[i] = &inside[i]
	}
	return elements, all, nil
}

// Settle reads all of a value, after which any number of goroutines may look at it.
func (v *Value) Settle() error {
	switch v.kind {
	case Int, Float:
		_, err := v.number()
		return err
	case Text:
		v.seen = &seen{said: v.Text()}
	case List, Dict:
		p, err := v.Split()
		if err != nil {
			return err
		}
		for _, part := range p.Values {
			if err := part.Settle(); err != nil {
				return err
			}
		}
	}
	return nil
}

// All iterates over the items, in their order; those of a list have no names.
func (p *Parts) All() iter.Seq2[string, *Value] {
	return func(yield func(string, *Value) bool) {
		for i, v := range p.Values {
			name := ""
			if p.Names != nil {
				name = p.Names[i]
			}
			if !yield(name, v) {
				return
			}
		}
	}
}

// Canonical returns a value as compact JSON, names in order and each once.
func (v *Value) Canonical() (json.RawMessage, error) {
	switch v.kind {
	case Text:
		return Quote(v.Text()), nil
	case List, Dict:
	default:
		return v.raw, nil
	}
	p, err := v.Split()
	if err != nil {
		return nil, err
	}
	c, names := NewCollection(v.kind), slices.Sorted(slices.Values(p.Names))
	for i, kid := range p.Values {
		name := ""
		if v.kind == Dict {
			name, kid = names[i], p.Get(names[i])
		}
		raw, err := kid.Canonical()
		if err != nil {
			return nil, err
		}
		c.Add(name, raw)
	}
	return c.JSON(), nil
}

// JSON writes parts as they stand, in their order.
func (p *Parts) JSON() json.RawMessage {
	c := NewCollection(List)
	if p.Names != nil {
		c = NewCollection(Dict)
	}
	for name, v := range p.All() {
		c.Add(name, v.raw)
	}
	return c.JSON()
}

// Collection is a list or dict that is written item by item, in the order in which they are added.
type Collection struct {
	raw  []byte // with what opens it, and without what closes it
	shut byte
}

// NewCollection begins a list or a dict.
func NewCollection(k Kind) *Collection {
	if k == Dict {
		return &Collection{[]byte{'{'}, '}'}
	}
	return &Collection{[]byte{'['}, ']'}
}

// Add appends what is JSON, in a dict under a name.
func (c *Collection) Add(name string, value json.RawMessage) { c.AddQuoted(Quote(name), value) }

// AddQuoted is Add for a name that is JSON, too.
func (c *Collection) AddQuoted(name, value json.RawMessage) {
	if len(c.raw) > len("{") {
		c.raw = append(c.raw, ',')
	}
	if c.shut == '}' {
		c.raw = append(append(c.raw, name...), ':')
	}
	c.raw = append(c.raw, value...)
}

// Size is how many bytes the items take.
func (c *Collection) Size() int { return len(c.raw) - len("{") }

// JSON ends the collection.
func (c *Collection) JSON() json.RawMessage { return append(c.raw, c.shut) }

// With returns parts with a value under a name, in its old place if it has one.
func (p *Parts) With(name string, value json.RawMessage) *Parts {
	with := &Parts{Names: slices.Clone(p.Names), Values: slices.Clone(p.Values)}
	if i, ok := p.find(name); ok {
		with.Values[i] = Checked(value)
		return with
	}
	with.Names, with.Values = append(with.Names, name), append(with.Values, Checked(value))
	return with
}

// Quote writes a JSON string without escapes for HTML.
func Quote(text string) []byte {
	if isPlain(text) {
		return append(append(append(make([]byte, 0, len(text)+2), '"'), text...), '"')
	}
	raw, err := encode(text)
	if err != nil {
		return strconv.AppendQuoteToASCII(nil, text) // a string always encodes
	}
	return raw
}

// isPlain reports whether a text stands in JSON as it is, which nearly all do.
func isPlain(text string) bool {
	for i := range len(text) {
		if b := text[i]; b < ' ' || b > '~' || b == '"' || b == '\\' {
			return false
		}
	}
	return true
}
