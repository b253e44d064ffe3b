package rules

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/inspector"
)

// Bounds of formats.
const (
	maxFormatted = 64 << 10 // bytes of one text
	maxWidth     = 4096     // characters to which a value is padded, and digits of it
)

// formatter is str.format(data=…), which reads no attributes: what Python would
// tell of its own insides is nobody's business.
type formatter struct {
	data *value
	all  string // the text that is formatted, for messages
}

// format returns text with its fields filled in.
func format(text string, data *value) (string, error) {
	f := &formatter{data: data, all: text}
	return f.expand(text, 2)
}

// formatField is what stands between braces.
type formatField struct {
	name       string
	conversion rune // 0: none
	spec       string
}

// expand formats a text, in which specifications may hold fields as often as
// depth says.
func (f *formatter) expand(text string, depth int) (string, error) {
	if depth == 0 {
		return "", raise("ValueError", "Max string recursion exceeded")
	}
	var out strings.Builder
	m := &markup{text: text}
	for m.at < len(text) {
		literal, field, err := m.next()
		if err != nil {
			return "", err
		}
		out.WriteString(literal)
		if field != nil {
			filled, err := f.fill(field, depth)
			if err != nil {
				return "", err
			}
			out.WriteString(filled)
		}
		if out.Len() > maxFormatted {
			return "", inspector.Failed("The value %s has more than %d bytes when it is formatted", clip(f.all), maxFormatted)
		}
	}
	return out.String(), nil
}

// fill makes the text of one field.
func (f *formatter) fill(field *formatField, depth int) (string, error) {
	v, err := f.lookup(field.name)
	if err != nil {
		return "", err
	}
	if v, err = convert(v, field.conversion); err != nil {
		return "", err
	}
	spec := field.spec
	if strings.Contains(spec, "{") {
		if spec, err = f.expand(spec, depth-1); err != nil {
			return "", err
		}
	}
	return formatValue(v, spec)
}

// convert applies !r, !s or !a.
func convert(v *value, conversion rune) (*value, error) {
	var text string
	var err error
	switch conversion {
	case 0:
		return v, nil
	case 's':
		text, err = str(v)
	case 'r', 'a':
		text, err = repr(v, conversion == 'a')
	default:
		return nil, raise("ValueError", "Unknown conversion specifier %s", printable(conversion))
	}
	return ofText(text), err
}

// printable shows a character of a format in a message.
func printable(r rune) string {
	if ' ' < r && r < 0x7f {
		return string(r)
	}
	return `\x` + strconv.FormatInt(int64(r), 16)
}

// lookup finds the value that a field names: data[…][…].
func (f *formatter) lookup(name string) (*value, error) {
	end := countUntil(name)
	first, rest := name[:end], name[end:]
	if _, isNumber, err := formatIndex(first); err != nil {
		return nil, err
	} else if isNumber || first == "" {
		return nil, raise("IndexError", "Replacement index %s out of range for positional args tuple", "0"+strings.TrimLeft(first, "0"))
	}
	if first != "data" {
		return nil, f.unknown(reprText(first))
	}
	v := f.data
	for len(rest) > 0 {
		key, more, err := f.step(rest)
		if err != nil {
			return nil, err
		}
		if v, err = f.item(v, key); err != nil {
			return nil, err
		}
		rest = more
	}
	return v, nil
}

// unknown is the contract's text for a key that is not there.
func (f *formatter) unknown(key string) error {
	return inspector.Failed("Invalid formatting variable key provided in value %s: %s", clip(f.all), clip(key))
}

// step reads the next [key] of a name.
func (f *formatter) step(name string) (key, rest string, err error) {
	switch name[0] {
	case '.':
		attribute, _, _ := strings.Cut(strings.ReplaceAll(name[1:], "[", "."), ".")
		if attribute == "" {
			return "", "", raise("ValueError", "Empty attribute in format string")
		}
		return "", "", inspector.Failed("Invalid formatting variable key provided in value %s: the attribute .%s may not be read; a key stands in brackets, as in [%[2]s]", clip(f.all), clip(attribute))
	case '[':
	default:
		return "", "", raise("ValueError", "Only '.' or '[' may follow ']' in format field specifier")
	}
	end := strings.IndexByte(name, ']')
	switch {
	case end < 0:
		return "", "", raise("ValueError", "Missing ']' in format string")
	case end == 1:
		return "", "", raise("ValueError", "Empty attribute in format string")
	}
	return name[1:end], name[end+1:], nil
}

// item is v[key], where digits are an index.
func (f *formatter) item(v *value, key string) (*value, error) {
	at, isIndex, err := formatIndex(key)
	if err != nil {
		return nil, err
	}
	switch kind := v.kind(); kind {
	case kindDict:
		if isIndex {
			return nil, f.unknown(strconv.Itoa(at)) // JSON has no names that are numbers
		}
		found, err := v.member(key)
		if err == nil && found == nil {
			err = f.unknown(reprText(key))
		}
		return found, err
	case kindList:
		if !isIndex {
			return nil, raise("TypeError", "list indices must be integers or slices, not str")
		}
		inside, err := v.split()
		if err != nil {
			return nil, err
		}
		if at >= len(inside.values) {
			return nil, raise("IndexError", "list index out of range")
		}
		return inside.values[at], nil
	case kindText:
		return textItem(v, at, isIndex)
	default:
		return nil, raise("TypeError", "'%v' object is not subscriptable", kind)
	}
}

func textItem(v *value, at int, isIndex bool) (*value, error) {
	if !isIndex {
		return nil, raise("TypeError", "string indices must be integers, not 'str'")
	}
	characters := []rune(v.text())
	if at >= len(characters) {
		return nil, raise("IndexError", "string index out of range")
	}
	return ofText(string(characters[at])), nil
}

// formatIndex reads digits.
func formatIndex(text string) (n int, isNumber bool, err error) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false, nil
	}
	n, err = strconv.Atoi(text)
	if err != nil {
		return 0, true, raise("ValueError", "Too many decimal digits in format string")
	}
	return n, true, nil
}

// markup splits a format into literal text and fields, by characters of ASCII.
type markup struct {
	text string
	at   int // offset of the next byte
}

// next returns literal text and the field behind it, which may be nil.
func (m *markup) next() (literal string, field *formatField, err error) {
	from := m.at
	for m.at < len(m.text) && m.text[m.at] != '{' && m.text[m.at] != '}' {
		m.at++
	}
	literal = m.text[from:m.at]
	if m.at == len(m.text) {
		return literal, nil, nil
	}
	brace := m.text[m.at]
	m.at++
	switch {
	case m.at < len(m.text) && m.text[m.at] == brace: // doubled, it is itself
		literal = m.text[from:m.at]
		m.at++
		return literal, nil, nil
	case brace == '}':
		return "", nil, raise("ValueError", "Single '}' encountered in format string")
	case m.at == len(m.text):
		return "", nil, raise("ValueError", "Single '{' encountered in format string")
	}
	field, err = m.field()
	return literal, field, err
}

// field reads a field to its closing brace.
func (m *markup) field() (*formatField, error) {
	from := m.at
	end, err := m.fieldName()
	if err != nil {
		return nil, err
	}
	field := &formatField{name: m.text[from : m.at-1]}
	if end == '}' {
		return field, nil
	}
	if end == '!' {
		if m.at == len(m.text) {
			return nil, raise("ValueError", "end of string while looking for conversion specifier")
		}
		conversion, size := utf8.DecodeRuneInString(m.text[m.at:])
		field.conversion = conversion
		m.at += size
		if m.at < len(m.text) {
			m.at++
			switch m.text[m.at-1] {
			case '}':
				return field, nil
			case ':':
			default:
				return nil, raise("ValueError", "expected ':' after conversion specifier")
			}
		}
	}
	return field, m.spec(field)
}

// fieldName steps over a name and what ends it, which it returns.
func (m *markup) fieldName() (end byte, err error) {
	for m.at < len(m.text) {
		b := m.text[m.at]
		m.at++
		switch b {
		case '{':
			return 0, raise("ValueError", "unexpected '{' in field name")
		case '[':
			for m.at < len(m.text) && m.text[m.at] != ']' {
				m.at++
			}
		case '}', ':', '!':
			return b, nil
		}
	}
	return 0, raise("ValueError", "expected '}' before end of string")
}

// spec reads a specification, whose braces come in pairs.
func (m *markup) spec(field *formatField) error {
	from, open := m.at, 1
	for ; m.at < len(m.text); m.at++ {
		switch m.text[m.at] {
		case '{':
			open++
		case '}':
			open--
		}
		if open == 0 {
			field.spec = m.text[from:m.at]
			m.at++
			return nil
		}
	}
	return raise("ValueError", "unmatched '{' in format spec")
}

// readsAttributes reports whether a format would read an attribute, which is
// refused already when a rule is created. A format that cannot be read fails
// when it is used, as in the original.
func readsAttributes(text string) error {
	f := &formatter{all: text}
	m := &markup{text: text}
	for m.at < len(m.text) {
		_, field, err := m.next()
		if err != nil {
			return nil
		}
		if field == nil {
			continue
		}
		rest := field.name[countUntil(field.name):]
		for len(rest) > 0 {
			_, more, err := f.step(rest)
			if _, refused := err.(*inspector.Problem); refused {
				return err
			}
			if err != nil {
				return nil
			}
			rest = more
		}
	}
	return nil
}

// countUntil counts the bytes before the first . or [.
func countUntil(name string) int {
	if n := strings.IndexAny(name, ".["); n >= 0 {
		return n
	}
	return len(name)
}

// formatAll formats every text in a value: names and values of dicts, elements
// of lists.
func formatAll(v, data *value) (*value, error) {
	switch v.kind() {
	case kindText:
		text, err := format(v.text(), data)
		return ofText(text), err
	case kindList, kindDict:
	default:
		return v, nil
	}
	inside, err := v.split()
	if err != nil {
		return nil, err
	}
	out := &kids{}
	for i, kid := range inside.values {
		if inside.names != nil {
			name, err := format(inside.names[i], data)
			if err != nil {
				return nil, err
			}
			out.names = append(out.names, name)
		}
		formatted, err := formatAll(kid, data)
		if err != nil {
			return nil, err
		}
		out.values = append(out.values, formatted)
	}
	return joined(v.kind(), out)
}

// joined makes a list or dict of what it shall hold; of a name that occurs twice
// the last value counts.
func joined(k kind, inside *kids) (*value, error) {
	raw := []byte{map[kind]byte{kindList: '[', kindDict: '{'}[k]}
	for i, kid := range inside.values {
		if i > 0 {
			raw = append(raw, ',')
		}
		if k == kindDict {
			raw = append(append(raw, quote(inside.names[i])...), ':')
		}
		raw = append(raw, kid.raw...)
		if len(raw) > 4*maxFormatted {
			return nil, inspector.Failed("A value has more than %d bytes when it is formatted", 4*maxFormatted)
		}
	}
	return checked(append(raw, map[kind]byte{kindList: ']', kindDict: '}'}[k])), nil
}

func isDecimal(r rune) bool { return r < unicode.MaxASCII && isDigit(byte(r)) }
