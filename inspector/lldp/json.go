package lldp

import (
	"fmt"
	"strconv"
)

// MarshalJSON implements json.Marshaler: an object, in the order in which the
// switch told. It is written by hand because it takes a third of the time that
// encoding/json does.
func (f *Facts) MarshalJSON() ([]byte, error) {
	out := append(make([]byte, 0, 1<<10), '{') // a switch that says all of it fills 800 bytes
	for i, fact := range f.list {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendText(out, fact.name), ':')
		var err error
		if out, err = appendValue(out, fact.value); err != nil {
			return nil, fmt.Errorf("%s: %w", fact.name, err)
		}
	}
	return append(out, '}'), nil
}

func appendValue(out []byte, value any) ([]byte, error) {
	switch value := value.(type) {
	case string:
		return appendText(out, value), nil
	case bool:
		return strconv.AppendBool(out, value), nil
	case uint16:
		return appendNumber(out, value), nil
	case uint32:
		return appendNumber(out, value), nil
	case []string:
		return appendList(out, value, appendText), nil
	case []uint16:
		return appendList(out, value, appendNumber), nil
	case []vlan:
		return appendList(out, value, appendVLAN), nil
	default:
		return nil, fmt.Errorf("a %T cannot be written", value)
	}
}

func appendList[T any](out []byte, list []T, item func(out []byte, item T) []byte) []byte {
	out = append(out, '[')
	for i, value := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = item(out, value)
	}
	return append(out, ']')
}

func appendVLAN(out []byte, v vlan) []byte {
	out = appendText(append(out, `{"name":`...), v.name)
	out = appendNumber(append(out, `,"id":`...), v.id)
	return append(out, '}')
}

func appendNumber[N uint16 | uint32](out []byte, n N) []byte {
	return strconv.AppendUint(out, uint64(n), 10)
}

// appendText quotes text, which is UTF-8.
func appendText(out []byte, text string) []byte {
	out = append(out, '"')
	from := 0
	for i := range len(text) {
		b := text[i]
		if b >= ' ' && b != '"' && b != '\\' {
			continue
		}
		out = append(out, text[from:i]...)
		from = i + 1
		if b >= ' ' {
			out = append(out, '\\', b)
		} else {
			out = fmt.Appendf(out, `\u%04x`, b)
		}
	}
	return append(append(out, text[from:]...), '"')
}
