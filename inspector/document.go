package inspector

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

// Document is a ramdisk's data: a JSON object whose top-level values are kept
// as they came until somebody sets one, so that what nobody touches stays as it
// was, down to the order of keys and the digits of numbers. It belongs to one
// goroutine.
type Document struct {
	keys    []string // in the order they came, then in the order they were set
	values  map[string]json.RawMessage
	changed map[string]bool   // set since it was parsed
	deleted map[string]bool   // deleted since it was parsed, even if set again
	split   map[string]Object // values that Members split
}

// ParseDocument reads a JSON object in UTF-8, nested up to 100 levels deep; the
// document keeps parts of raw. Of a key that occurs twice the last value
// counts, as in the original. Anything else is a *Problem with the contract's
// text.
func ParseDocument(raw []byte) (*Document, error) {
	d, err := parseDocument(raw, nil)
	return d, invalidData(err)
}

// invalidData gives text that is no JSON its place in the contract.
func invalidData(err error) error {
	var not *notJSON
	if errors.As(err, &not) {
		return Failed("Invalid data: the body is not valid JSON: %v", not)
	}
	return err
}

// receive is ParseDocument for what comes from outside. It takes no key twice in
// an object, no more than 1,000 of its own and 100,000 of all, no string of more than 1 MiB but the
// logs, and no number that is out of a float64's range.
func receive(raw []byte) (*Document, error) { return parseDocument(raw, new(jsonLimits)) }

// notJSON says why a text is not JSON.
type notJSON struct{ why error }

// Error implements error.
func (e *notJSON) Error() string { return e.why.Error() }

// parseDocument tells text that is no JSON from JSON that is no object.
func parseDocument(raw []byte, outside *jsonLimits) (*Document, error) {
	d := &Document{values: make(map[string]json.RawMessage), changed: make(map[string]bool), deleted: make(map[string]bool)}
	s := scanner{text: raw, limits: outside}
	s.space()
	read := s.value
	if s.peek() == '{' {
		read = func() error { return s.object(d.member) }
	}
	if err := s.only(read); err != nil {
		return nil, &notJSON{err}
	}
	if !utf8.Valid(raw) {
		return nil, &notJSON{errNotUTF8}
	}
	if first := bytes.TrimLeft(raw, " \n\r\t"); first[0] != '{' {
		return nil, Failed("Invalid data: expected a JSON object, got %s", pythonType(first))
	}
	return d, nil
}

func (d *Document) member(quoted, value []byte) error {
	key, err := unquote(quoted)
	d.put(key, value)
	return err
}

// errNotUTF8 is text in another encoding.
var errNotUTF8 = errors.New("it is not UTF-8")

// clone returns a document of its own that shares the values, which never
// change.
func (d *Document) clone() *Document {
	return &Document{keys: slices.Clone(d.keys), values: maps.Clone(d.values), changed: maps.Clone(d.changed), deleted: maps.Clone(d.deleted), split: maps.Clone(d.split)}
}

// pythonType names a JSON value as the original does.
func pythonType(value []byte) string {
	switch value[0] {
	case '[':
		return "list"
	case '"':
		return "str"
	case 't', 'f':
		return "bool"
	case 'n':
		return "NoneType"
	}
	if bytes.ContainsAny(value, ".eE") {
		return "float"
	}
	return "int"
}

func (d *Document) put(key string, value json.RawMessage) {
	if _, known := d.values[key]; !known {
		d.keys = append(d.keys, key)
	}
	d.values[key] = value
	delete(d.split, key)
}

// Has reports whether there is a value other than null.
func (d *Document) Has(key string) bool {
	raw, ok := d.values[key]
	return ok && raw[0] != 'n'
}

// Raw returns a top-level value as it stands, nil if there is none.
func (d *Document) Raw(key string) json.RawMessage { return d.values[key] }

// Members splits a top-level value that is an object. Several hooks read the
// inventory, which is nearly all of the document: it is split once.
func (d *Document) Members(key string) (Object, error) {
	if members, known := d.split[key]; known {
		return members, nil
	}
	members, err := Members(d.values[key])
	if err != nil {
		return nil, err
	}
	if d.split == nil {
		d.split = make(map[string]Object)
	}
	d.split[key] = members
	return members, nil
}

// Get decodes a top-level value into out and reports whether there is one; null
// is none. A value of another shape is a *Problem that names the key.
func (d *Document) Get(key string, out any) (bool, error) {
	if !d.Has(key) {
		return false, nil
	}
	if err := json.Unmarshal(d.values[key], out); err != nil {
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
	d.put(key, raw)
	d.changed[key] = true
	return nil
}

// encode is json.Marshal without escapes for HTML, which nobody asked for.
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
	delete(d.split, key)
	delete(d.changed, key)
	d.keys = slices.DeleteFunc(d.keys, func(k string) bool { return k == key })
	d.deleted[key] = true
}

// JSON returns the document as compact JSON.
func (d *Document) JSON() ([]byte, error) {
	size := len("{}")
	for _, key := range d.keys {
		size += len(key) + len(`"":,`) + len(d.values[key])
	}
	out := append(make([]byte, 0, size), '{')
	for i, key := range d.keys {
		if i > 0 {
			out = append(out, ',')
		}
		name, err := encode(key)
		if err != nil {
			return nil, fmt.Errorf("encode document: %w", err)
		}
		out = append(append(out, name...), ':')
		out = appendCompact(out, d.values[key])
	}
	return append(out, '}'), nil
}

// overlay is what processing changed: kept beside the document it was made
// from, so that 30 KB are not stored twice a node. First the deletions, then
// what is set, in order.
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
			o.Set[key] = d.values[key]
			o.Order = append(o.Order, key)
		}
	}
	for key := range d.deleted {
		o.Delete = append(o.Delete, key)
	}
	slices.Sort(o.Delete)
	return encode(o)
}

// instead returns the changes that make d of another document.
func (d *Document) instead(of *Document) overlay {
	return overlay{Set: d.values, Order: d.keys, Delete: slices.Sorted(slices.Values(of.keys))}
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
		d.put(key, value)
		d.changed[key] = true
	}
	return nil
}
