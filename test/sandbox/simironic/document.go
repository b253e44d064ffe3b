package simironic

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// attribute is one top-level entry of a document.
type attribute struct {
	key   string
	value any
	raw   json.RawMessage // value, encoded
}

// document is a JSON object as Ironic shows it, with the encoding of every
// top-level value kept beside it: most changes touch one or two of thirty. It
// is never changed in place, so that whoever holds one may read and write it
// out without a lock.
type document struct {
	attributes []attribute // by key
	encoded    []byte      // all of it
}

func newDocument(values map[string]any) document {
	var d document
	for key, value := range values {
		d.attributes = append(d.attributes, attribute{key, value, marshal(value)})
	}
	slices.SortFunc(d.attributes, func(a, b attribute) int { return strings.Compare(a.key, b.key) })
	d.encode()
	return d
}

// with returns a copy in which the given values are set; none of them is new.
func (d document) with(changes map[string]any) document {
	out := document{attributes: slices.Clone(d.attributes)}
	for key, value := range changes {
		if i, known := d.index(key); known {
			out.attributes[i] = attribute{key, value, marshal(value)}
		}
	}
	out.encode()
	return out
}

func (d document) index(key string) (int, bool) {
	return slices.BinarySearchFunc(d.attributes, key,
		func(a attribute, key string) int { return strings.Compare(a.key, key) })
}

func (d *document) encode() {
	size := len("{}")
	for _, a := range d.attributes {
		size += len(`"":,`) + len(a.key) + len(a.raw)
	}
	b := append(make([]byte, 0, size), '{')
	for i, a := range d.attributes {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), a.key...), `":`...) // keys here need no escapes
		b = append(b, a.raw...)
	}
	d.encoded = append(b, '}')
}

// get returns a value; known is false if documents of this kind have none.
func (d document) get(key string) (value any, known bool) {
	i, known := d.index(key)
	if !known {
		return nil, false
	}
	return d.attributes[i].value, true
}

// text returns a value that is a string; "" if it is null.
func (d document) text(key string) string {
	value, _ := d.get(key) // none is no text
	return textOf(value)
}

// selected encodes some fields, all if there are none.
func (d document) selected(fields []string) ([]byte, error) {
	if fields == nil {
		return d.encoded, nil
	}
	var out document
	for _, field := range fields {
		i, known := d.index(field)
		if !known {
			return nil, refuse(http.StatusBadRequest, "Field(s) \"%s\" are not valid.", field)
		}
		out.attributes = append(out.attributes, d.attributes[i])
	}
	out.encode()
	return out.encoded, nil
}

func textOf(v any) string {
	text, _ := v.(string) // null is ""
	return text
}
