// Package document is JSON as the inspector has it: a ramdisk's data, which stays as it
// came but for values that are set, and values that are split, printed, converted and
// compared as the original does, a Python program. Hooks and rules read the same
// values, and say the same of them.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Document is a ramdisk's data: a JSON object whose top-level values are kept as
// they came until one is set, so that values that are not set stay as they were,
// down to the order of keys and the digits of numbers. It belongs to one goroutine.
type Document struct {
	keys    []string // in the order they came, then in the order they were set
	values  map[string]*Value
	changed map[string]bool // set since it was parsed
	deleted map[string]bool // deleted since it was parsed, even if set again
}

// Logs is the key of the ramdisk's own logs: base64 of a compressed archive.
const Logs = "logs"

// Parse reads a JSON object in UTF-8, nested up to 100 levels deep; the document
// keeps parts of raw. Of a key that occurs twice the last value counts, as in the
// original. Anything else is a *Problem with the contract's text.
func Parse(raw []byte) (*Document, error) { return parse(raw, nil) }

// Receive is Parse for what comes from outside. It takes no key twice in an object,
// no more than 1,000 of its own and 100,000 of all, no string of more than 1 MiB but
// the logs, and no number that is out of a float64's range.
func Receive(raw []byte) (*Document, error) { return parse(raw, new(jsonLimits)) }

// NotJSON is the Problem of text that is no JSON.
type NotJSON struct{ why error }

// Error implements error.
func (e *NotJSON) Error() string { return "Invalid data: the body is not valid JSON: " + e.why.Error() }

// Unwrap returns the Problem.
func (e *NotJSON) Unwrap() error { return &Problem{e.Error()} }

// parse tells text that is no JSON from JSON that is no object.
func parse(raw []byte, outside *jsonLimits) (*Document, error) {
	d := &Document{values: make(map[string]*Value), changed: make(map[string]bool), deleted: make(map[string]bool)}
	s := scanner{text: raw, limits: outside}
	s.space()
	read := s.value
	if s.peek() == '{' {
		read = func() error { return s.object(d.member) }
	}
	if err := s.only(read); err != nil {
		return nil, &NotJSON{err}
	}
	if !utf8.Valid(raw) {
		return nil, &NotJSON{errNotUTF8}
	}
	if first := bytes.TrimSpace(raw); first[0] != '{' {
		return nil, Failed("Invalid data: expected a JSON object, got %v", kindOf(first))
	}
	return d, nil
}

func (d *Document) member(quoted, value []byte) error {
	d.put(unquote(quoted), Checked(value))
	return nil
}

// errNotUTF8 is text in another encoding.
var errNotUTF8 = errors.New("it is not UTF-8")

// Clone returns a document of its own, for another goroutine.
func (d *Document) Clone() *Document {
	values := make(map[string]*Value, len(d.values))
	for key, v := range d.values { // order-free: each on its own
		values[key] = Checked(v.raw)
	}
	return &Document{keys: slices.Clone(d.keys), values: values, changed: maps.Clone(d.changed),
		deleted: maps.Clone(d.deleted)}
}

func (d *Document) put(key string, value *Value) {
	if _, known := d.values[key]; !known {
		d.keys = append(d.keys, key)
	}
	d.values[key] = value
}

// Has reports whether there is a value other than null.
func (d *Document) Has(key string) bool { return d.values[key].Kind() != None }

// Value returns a top-level value, nil if there is none.
func (d *Document) Value(key string) *Value { return d.values[key] }

// Get decodes a top-level value into out and reports whether there is one; null
// is none. A value of another shape is a *Problem that names the key.
func (d *Document) Get(key string, out any) (bool, error) {
	if !d.Has(key) {
		return false, nil
	}
	if err := json.Unmarshal(d.values[key].raw, out); err != nil {
		return false, Failed("%s: %v", key, strings.TrimPrefix(err.Error(), "json: "))
	}
	return true, nil
}

// Set stores a value that can be encoded as JSON, or a json.RawMessage as it
// is.
func (d *Document) Set(key string, value any) error {
	raw, encoded := value.(json.RawMessage)
	var err error
	if encoded {
		raw = bytes.Trim(raw, " \n\r\t")
		s := scanner{text: raw}
		err = s.only(s.value)
	} else {
		raw, err = encode(value)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	d.put(key, Checked(raw))
	d.changed[key] = true
	return nil
}

// encode is json.Marshal without escapes for HTML, which the original does not
// write.
func encode(value any) (json.RawMessage, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

// Delete removes a value, if there is one.
func (d *Document) Delete(key string) {
	if _, known := d.values[key]; !known {
		return
	}
	delete(d.values, key)
	delete(d.changed, key)
	d.keys = slices.DeleteFunc(d.keys, func(k string) bool { return k == key })
	d.deleted[key] = true
}

// JSON returns the document as compact JSON.
func (d *Document) JSON() []byte {
	size := len("{}")
	for _, key := range d.keys {
		size += len(key) + len(`"":,`) + len(d.values[key].raw)
	}
	out := append(make([]byte, 0, size), '{')
	for i, key := range d.keys {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendCompact(append(append(out, Quote(key)...), ':'), d.values[key].raw)
	}
	return append(out, '}')
}

// overlay is what processing changed: kept next to the document it was made from,
// so that 30 KB are not stored twice a node. First the deletions, then what is set,
// in order.
type overlay struct {
	Delete []string                   `json:"delete,omitempty"`
	Set    map[string]json.RawMessage `json:"set,omitempty"`
	Order  []string                   `json:"order,omitempty"` // of Set
}

// Overlay returns what was set and deleted since the document was parsed; see
// Apply.
func (d *Document) Overlay() ([]byte, error) {
	o := overlay{Set: make(map[string]json.RawMessage)}
	for _, key := range d.keys {
		if d.changed[key] {
			o.Set[key] = d.values[key].raw
			o.Order = append(o.Order, key)
		}
	}
	o.Delete = slices.Sorted(maps.Keys(d.deleted))
	return encode(o)
}

// Instead returns the changes that make d of another document.
func (d *Document) Instead(of *Document) ([]byte, error) {
	set := make(map[string]json.RawMessage, len(d.keys))
	for _, key := range d.keys {
		set[key] = d.values[key].raw
	}
	return encode(overlay{Set: set, Order: d.keys, Delete: slices.Sorted(slices.Values(of.keys))})
}

// ChangesTo returns the changes that make want of d, whose values differ little,
// with its keys in want's order.
func (d *Document) ChangesTo(want *Document) ([]byte, error) {
	o := overlay{Set: make(map[string]json.RawMessage)}
	for _, key := range want.keys {
		had, value := d.values[key], want.values[key].raw
		if had == nil || !bytes.Equal(appendCompact(nil, had.raw), appendCompact(nil, value)) {
			o.Set[key], o.Order = value, append(o.Order, key)
		}
	}
	for _, key := range d.keys {
		if _, kept := want.values[key]; !kept {
			o.Delete = append(o.Delete, key)
		}
	}
	changes, err := encode(o)
	if err != nil {
		return nil, err
	}
	made := d.Clone()
	if err := made.Apply(changes); err != nil {
		return nil, err
	}
	if !bytes.Equal(made.JSON(), want.JSON()) { // some key stands elsewhere
		return want.Instead(d)
	}
	return changes, nil
}

// Apply makes the changes of an overlay of the same document.
func (d *Document) Apply(changes []byte) error {
	var o overlay
	if err := json.Unmarshal(changes, &o); err != nil {
		return fmt.Errorf("changes to a document: %w", err)
	}
	for _, key := range o.Delete {
		d.Delete(key)
		d.deleted[key] = true // also what came and went since it was parsed
	}
	for _, key := range o.Order {
		value, there := o.Set[key]
		if !there {
			return fmt.Errorf("changes to a document: %q has an order and no value", key)
		}
		d.put(key, Checked(value))
		d.changed[key] = true
	}
	return nil
}

// Problem is a failure that is the data's or the node's own: the callback is answered 400 with the
// text as it is.
type Problem struct{ Text string }

// Error implements error.
func (p *Problem) Error() string { return p.Text }

// Failed makes a Problem.
func Failed(format string, args ...any) error { return &Problem{fmt.Sprintf(format, args...)} }

// Exception is a failure for which the contract has the name of one of the original's
// exceptions: the callback is answered 500 with both.
type Exception struct {
	Class string // as KeyError
	Text  string
}

// Error implements error.
func (e *Exception) Error() string { return e.Text }

// Raise fails as the original would: unexpectedly, with an exception of a class.
func Raise(class, format string, args ...any) error {
	return &Exception{Class: class, Text: fmt.Sprintf(format, args...)}
}

// maxQuoted is how much of a value a text of an error repeats, in bytes.
const maxQuoted = 512

// Clip makes a text of the data fit for the text of an error.
func Clip(text string) string {
	if len(text) <= maxQuoted {
		return text
	}
	return strings.ToValidUTF8(text[:maxQuoted], "") + "…"
}
