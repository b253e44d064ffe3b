package lldp

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// MarshalJSON implements json.Marshaler: an object, in the order in which the switch
// told. Like the original it escapes nothing for HTML.
func (f *Facts) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	out.WriteByte('{')
	for i, fact := range f.list {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%q:", fact.name)
		if err := enc.Encode(fact.value); err != nil {
			return nil, fmt.Errorf("%s: %w", fact.name, err)
		}
		out.Truncate(out.Len() - 1) // the newline of Encode
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}
