package rules

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/inspector"
)

// raise fails as the original would: unexpectedly, with an exception of a class.
func raise(class, format string, args ...any) error {
	return &inspector.Exception{Class: class, Text: fmt.Sprintf(format, args...)}
}

// maxQuoted is how much of a value a text of an error repeats, in bytes.
const maxQuoted = 512

func clip(text string) string {
	if len(text) <= maxQuoted {
		return text
	}
	return strings.ToValidUTF8(text[:maxQuoted], "") + "…"
}

// maxText is how long the text of a value may get, in bytes: patterns are
// searched in it and formats put it into attributes.
const maxText = 1 << 20

// printer writes values as Python does.
type printer struct{ strings.Builder }

// str is str(v).
func str(v *value) (string, error) {
	if v.kind() == kindText {
		return v.text(), nil
	}
	return repr(v)
}

// repr is repr(v).
func repr(v *value) (string, error) {
	p := &printer{}
	if err := p.value(v); err != nil {
		return "", err
	}
	return p.String(), nil
}

func (p *printer) value(v *value) error {
	if v.kind() == kindText && len(v.raw) > maxText || p.Len() > maxText {
		return inspector.Failed("A value of the data has more than %d bytes as text, too many for rules", maxText)
	}
	switch v.kind() {
	case kindNone:
		p.WriteString("None")
	case kindBool:
		p.WriteString(map[byte]string{'t': "True", 'f': "False"}[v.raw[0]])
	case kindInt, kindFloat:
		n, err := v.number()
		if err != nil {
			return err
		}
		p.WriteString(n.String())
	case kindText:
		p.text(v.text())
	default:
		return p.container(v)
	}
	return nil
}

func (p *printer) container(v *value) error {
	k, err := v.split()
	if err != nil {
		return err
	}
	open, shut := byte('['), byte(']')
	if v.kind() == kindDict {
		open, shut = '{', '}'
	}
	p.WriteByte(open)
	for i, kid := range k.values {
		if i > 0 {
			p.WriteString(", ")
		}
		if k.names != nil {
			p.text(k.names[i])
			p.WriteString(": ")
		}
		if err := p.value(kid); err != nil {
			return err
		}
	}
	p.WriteByte(shut)
	return nil
}

// reprText is repr() of a string.
func reprText(text string) string {
	var p printer
	p.text(text)
	return p.String()
}

func (p *printer) text(text string) {
	mark := '\''
	if strings.ContainsRune(text, '\'') && !strings.ContainsRune(text, '"') {
		mark = '"'
	}
	p.WriteRune(mark)
	for _, r := range text {
		p.rune(r, mark)
	}
	p.WriteRune(mark)
}

func (p *printer) rune(r, mark rune) {
	switch {
	case r == mark, r == '\\':
		p.WriteRune('\\')
		p.WriteRune(r)
	case r == '\n':
		p.WriteString(`\n`)
	case r == '\r':
		p.WriteString(`\r`)
	case r == '\t':
		p.WriteString(`\t`)
	case ' ' <= r && r < 0x7f, r > 0x7f && unicode.IsPrint(r):
		p.WriteRune(r)
	case r <= 0xff:
		fmt.Fprintf(p, `\x%02x`, r)
	case r <= 0xffff:
		fmt.Fprintf(p, `\u%04x`, r)
	default:
		fmt.Fprintf(p, `\U%08x`, r)
	}
}

// floatText is repr() of a float: the shortest digits that mean it.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(f, 'f', -1, 64), "+"))
	case f != 0 && (math.Abs(f) < 1e-4 || math.Abs(f) >= 1e16):
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// equal is a == b.
func equal(a, b *value) (bool, error) {
	if isNumeric(a) && isNumeric(b) {
		order, ordered, err := compareNumeric(a, b)
		return ordered && order == 0, err
	}
	if a.kind() != b.kind() {
		return false, nil
	}
	switch a.kind() {
	case kindNone:
		return true, nil
	case kindText:
		return a.text() == b.text(), nil
	default:
		return equalKids(a, b)
	}
}

func isNumeric(v *value) bool { k := v.kind(); return k == kindBool || k == kindInt || k == kindFloat }

func compareNumeric(a, b *value) (order int, ordered bool, err error) {
	x, err := a.number()
	if err != nil {
		return 0, false, err
	}
	y, err := b.number()
	if err != nil {
		return 0, false, err
	}
	order, ordered = compareNumbers(x, y)
	return order, ordered, nil
}

// equalKids compares two lists, or two dicts, whose order does not matter.
func equalKids(a, b *value) (bool, error) {
	x, err := a.split()
	if err != nil {
		return false, err
	}
	y, err := b.split()
	if err != nil || len(x.values) != len(y.values) {
		return false, err
	}
	for i, kid := range x.values {
		other := y.values[i]
		if x.names != nil {
			if other, err = b.member(x.names[i]); err != nil || other == nil {
				return false, err
			}
		}
		if same, err := equal(kid, other); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// compare orders two values; sign is the operator, for the text of what cannot
// be ordered. ordered is false if a number is none (NaN).
func compare(a, b *value, sign string) (order int, ordered bool, err error) {
	switch {
	case isNumeric(a) && isNumeric(b):
		return compareNumeric(a, b)
	case a.kind() == kindText && b.kind() == kindText:
		return strings.Compare(a.text(), b.text()), true, nil // UTF-8 keeps the order of characters
	case a.kind() == kindList && b.kind() == kindList:
		return compareLists(a, b, sign)
	default:
		return 0, false, raise("TypeError", "'%s' not supported between instances of '%v' and '%v'", sign, a.kind(), b.kind())
	}
}

// compareLists orders by the first elements that differ, then by length.
func compareLists(a, b *value, sign string) (order int, ordered bool, err error) {
	x, err := a.split()
	if err != nil {
		return 0, false, err
	}
	y, err := b.split()
	if err != nil {
		return 0, false, err
	}
	for i := range min(len(x.values), len(y.values)) {
		if same, err := equal(x.values[i], y.values[i]); err != nil {
			return 0, false, err
		} else if !same {
			return compare(x.values[i], y.values[i], sign)
		}
	}
	return len(x.values) - len(y.values), true, nil
}

// contains reports whether one of values equals v.
func contains(values []*value, v *value) (bool, error) {
	for _, other := range values {
		if same, err := equal(other, v); err != nil || same {
			return same, err
		}
	}
	return false, nil
}

// runes counts characters as len() does.
func runes(text string) int { return utf8.RuneCountInString(text) }
