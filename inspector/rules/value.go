package rules

import (
	"bytes"
	"encoding/json"
	"math/big"
	"slices"
	"sort"
	"strconv"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/inspector"
)

// maxValues is how many values of one document are looked at one by one. What a
// ramdisk sends has some thousand.
const maxValues = 500_000

// kind is the kind of a value, by its Python type.
type kind byte

const (
	kindNone kind = iota
	kindBool
	kindInt
	kindFloat
	kindText
	kindList
	kindDict
)

// kindNames are the Python types as exceptions name them.
var kindNames = [...]string{"NoneType", "bool", "int", "float", "str", "list", "dict"}

// String implements fmt.Stringer.
func (k kind) String() string { return kindNames[k] }

// value is a JSON value that is split when somebody looks into it: most rules
// look at a few values of a large document. It belongs to one
// goroutine until it is settled.
type value struct {
	raw  json.RawMessage // checked
	is   kind
	left *int    // values that may yet be looked at, shared by a document
	kids *kids   // of a list or dict that was split
	num  *number // of a number that was read, or that is none in JSON
	said string  // of a text that was read, unless it is empty
}

// kids are what a list or a dict holds.
type kids struct {
	names  []string // of a dict, in the order in which each came first
	values []*value
	at     map[string]int // of large dicts
}

// indexed is from how many names on a dict is searched by a map.
const indexed = 16

// parse makes a value of JSON text. A problem names the byte.
func parse(raw json.RawMessage) (*value, error) {
	if _, err := inspector.Elements(slices.Concat([]byte("["), raw, []byte("]"))); err != nil {
		return nil, err
	}
	return checked(raw), nil
}

// checked makes a value of text that is known to be JSON.
func checked(raw json.RawMessage) *value {
	left := maxValues
	raw = bytes.TrimSpace(raw)
	return &value{raw: raw, is: kindOf(raw), left: &left}
}

func (v *value) kind() kind { return v.is }

func kindOf(raw json.RawMessage) kind {
	switch raw[0] {
	case 'n':
		return kindNone
	case 't', 'f':
		return kindBool
	case '"':
		return kindText
	case '[':
		return kindList
	case '{':
		return kindDict
	}
	if bytes.ContainsAny(raw, ".eE") {
		return kindFloat
	}
	return kindInt
}

// text returns a string's content, which is read once: a hundred rules compare
// the same ones.
func (v *value) text() string {
	if v.said == "" && len(v.raw) > len(`""`) {
		v.said = unquote(v.raw)
	}
	return v.said
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

// isTrue is bool().
func (v *value) isTrue() (bool, error) {
	switch v.kind() {
	case kindNone:
		return false, nil
	case kindBool:
		return v.raw[0] == 't', nil
	case kindText:
		return len(v.raw) > len(`""`), nil
	case kindInt, kindFloat:
		n, err := v.number()
		return err == nil && !n.isZero(), err
	default:
		n, err := v.size()
		return n > 0, err
	}
}

// size returns how many values a list or dict holds.
func (v *value) size() (int, error) {
	k, err := v.split()
	if err != nil {
		return 0, err
	}
	return len(k.values), nil
}

// split looks into a list or dict.
func (v *value) split() (*kids, error) {
	if v.kids != nil {
		return v.kids, nil
	}
	var few [16]part // nearly no list or dict has more
	parts, err := cut(v.raw, few[:0], *v.left)
	if err != nil {
		return nil, err
	}
	inside, err := v.hatch(parts)
	if err != nil {
		return nil, err
	}
	k := &kids{values: make([]*value, 0, len(parts))}
	if v.kind() == kindDict {
		k.name(parts, inside)
	} else {
		for i := range inside {
			k.values = append(k.values, &inside[i])
		}
	}
	v.kids = k
	return k, nil
}

// name puts the values of a dict under their names: of one that occurs twice the
// last value counts, at the place of the first.
func (k *kids) name(parts []part, inside []value) {
	k.names = make([]string, 0, len(parts))
	if len(parts) > indexed {
		k.at = make(map[string]int, len(parts))
	}
	for i, p := range parts {
		name := unquote(p.name)
		if first, twice := k.find(name); twice {
			k.values[first] = &inside[i]
			continue
		}
		if k.at != nil {
			k.at[name] = len(k.names)
		}
		k.names, k.values = append(k.names, name), append(k.values, &inside[i])
	}
}

// find returns where a name is.
func (k *kids) find(name string) (at int, ok bool) {
	if k.at != nil {
		at, ok = k.at[name]
		return at, ok
	}
	at = slices.Index(k.names, name)
	return at, at >= 0
}

// hatch makes the values inside v.
func (v *value) hatch(parts []part) ([]value, error) {
	if *v.left < len(parts) {
		return nil, inspector.Failed("The data has more than %d values for rules to look at", maxValues)
	}
	*v.left -= len(parts)
	inside := make([]value, len(parts))
	for i, p := range parts {
		inside[i] = value{raw: p.value, is: kindOf(p.value), left: v.left}
	}
	return inside, nil
}

// settle reads all of a value, after which any number of goroutines may look at
// it.
func (v *value) settle() error {
	switch v.kind() {
	case kindInt, kindFloat:
		_, err := v.number()
		return err
	case kindText:
		v.text()
		return nil
	case kindList, kindDict:
	default:
		return nil
	}
	inside, err := v.split()
	if err != nil {
		return err
	}
	for _, kid := range inside.values {
		if err := kid.settle(); err != nil {
			return err
		}
	}
	return nil
}

// member returns what a dict holds under a name, nil if nothing.
func (v *value) member(name string) (*value, error) {
	k, err := v.split()
	if err != nil {
		return nil, err
	}
	i, ok := k.find(name)
	if !ok {
		return nil, nil
	}
	return k.values[i], nil
}

// appendJSON appends a value as compact JSON, names in order and each once.
func appendJSON(out []byte, v *value) ([]byte, error) {
	switch v.kind() {
	case kindText:
		return append(out, quote(v.text())...), nil
	case kindList, kindDict:
	default:
		return append(out, v.raw...), nil
	}
	k, err := v.split()
	if err != nil {
		return nil, err
	}
	order := make([]int, len(k.values))
	for i := range order {
		order[i] = i
	}
	open, shut := byte('['), byte(']')
	if v.kind() == kindDict {
		open, shut = '{', '}'
		sort.Slice(order, func(i, j int) bool { return k.names[order[i]] < k.names[order[j]] })
	}
	out = append(out, open)
	for n, i := range order {
		if n > 0 {
			out = append(out, ',')
		}
		if k.names != nil {
			out = append(append(out, quote(k.names[i])...), ':')
		}
		if out, err = appendJSON(out, k.values[i]); err != nil {
			return nil, err
		}
	}
	return append(out, shut), nil
}

// quote writes a JSON string without escapes for HTML.
func quote(text string) []byte {
	if isPlain(text) {
		return append(append(append(make([]byte, 0, len(text)+2), '"'), text...), '"')
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		return strconv.AppendQuoteToASCII(nil, text) // a string always encodes
	}
	return bytes.TrimRight(out.Bytes(), "\n")
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

// ofText, ofInt and ofFloat make values that stand in no document.
func ofText(text string) *value { return &value{is: kindText, raw: quote(text), said: text} }

func ofInt(i *big.Int) *value {
	return &value{is: kindInt, num: &number{whole: i}, raw: json.RawMessage(i.String())}
}

func ofFloat(f float64) *value {
	n := &number{float: f}
	return &value{is: kindFloat, num: n, raw: json.RawMessage(n.String())}
}
