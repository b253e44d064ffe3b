package inspector

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Document is a ramdisk's data: a JSON object whose top-level values are kept
// as they came until somebody sets one, so that what nobody touches stays as it
// was, down to the order of keys and the digits of numbers. It belongs to one
// goroutine.
type Document struct {
	keys    []string // in the order they came, then in the order they were set
	values  map[string]json.RawMessage
	changed map[string]bool // set or deleted since it was parsed
}

// ParseDocument reads a JSON object. Anything else is a *Problem with the
// contract's text.
func ParseDocument(raw []byte) (*Document, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	first, err := dec.Token()
	if err != nil {
		return nil, Failed("Invalid data: the body is not valid JSON: %v", syntax(err))
	}
	if first != json.Delim('{') {
		return nil, Failed("Invalid data: expected a JSON object, got %s", pythonType(first))
	}
	d := &Document{values: make(map[string]json.RawMessage), changed: make(map[string]bool)}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, Failed("Invalid data: the body is not valid JSON: %v", syntax(err))
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, Failed("Invalid data: the body is not valid JSON: %v", syntax(err))
		}
		d.put(key.(string), value)
	}
	if _, err := dec.Token(); err != nil {
		return nil, Failed("Invalid data: the body is not valid JSON: %v", syntax(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, Failed("Invalid data: something follows the JSON object")
	}
	return d, nil
}

// syntax turns the decoder's way of saying that the text ends early into words.
func syntax(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends too early")
	}
	return err
}

// pythonType names a JSON value as the original does.
func pythonType(t json.Token) string {
	switch t := t.(type) {
	case json.Delim:
		return "list"
	case string:
		return "str"
	case float64:
		if t == float64(int64(t)) {
			return "int"
		}
		return "float"
	case bool:
		return "bool"
	default:
		return "NoneType"
	}
}

func (d *Document) put(key string, value json.RawMessage) {
	if _, known := d.values[key]; !known {
		d.keys = append(d.keys, key)
	}
	d.values[key] = value
}

// Has reports whether there is a value other than null.
func (d *Document) Has(key string) bool {
	raw, ok := d.values[key]
	return ok && !bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}

// Get decodes a top-level value into out and reports whether there is one; null
// is none. A value of another shape is an error that names the key.
func (d *Document) Get(key string, out any) (bool, error) {
	if !d.Has(key) {
		return false, nil
	}
	if err := json.Unmarshal(d.values[key], out); err != nil {
		return false, fmt.Errorf("%s: %w", key, err)
	}
	return true, nil
}

// Set stores a value that can be encoded as JSON.
func (d *Document) Set(key string, value any) error {
	raw, err := encode(value)
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
	d.keys = slices.DeleteFunc(d.keys, func(k string) bool { return k == key })
	d.changed[key] = true
}

// JSON returns the document as compact JSON.
func (d *Document) JSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, key := range d.keys {
		if i > 0 {
			out.WriteByte(',')
		}
		name, err := encode(key)
		if err != nil {
			return nil, fmt.Errorf("encode document: %w", err)
		}
		out.Write(name)
		out.WriteByte(':')
		if err := json.Compact(&out, d.values[key]); err != nil {
			return nil, fmt.Errorf("encode document: %s: %w", key, err)
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// overlay is what processing changed: kept beside the document it was made
// from, so that 30 KB are not stored twice a node.
type overlay struct {
	Set    map[string]json.RawMessage `json:"set,omitempty"`
	Order  []string                   `json:"order,omitempty"` // of Set
	Delete []string                   `json:"delete,omitempty"`
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
	for key := range d.changed {
		if _, there := d.values[key]; !there {
			o.Delete = append(o.Delete, key)
		}
	}
	slices.Sort(o.Delete)
	return encode(o)
}

// Apply makes the changes of an overlay.
func (d *Document) Apply(changes []byte) error {
	var o overlay
	if err := json.Unmarshal(changes, &o); err != nil {
		return fmt.Errorf("changes to a document: %w", err)
	}
	for _, key := range o.Order {
		d.put(key, o.Set[key])
		d.changed[key] = true
	}
	for _, key := range o.Delete {
		d.Delete(key)
	}
	return nil
}
