package document

import (
	"fmt"
	"strings"
	"unicode"
)

// maxText is how long the text of a value may get, in bytes: patterns are
// searched in it and formats put it into attributes.
const maxText = 1 << 20

// printer writes values as Python does.
type printer struct{ strings.Builder }

// Str is str(v).
func Str(v *Value) (string, error) {
	if v.kind == Text {
		return v.Text(), nil
	}
	return Repr(v)
}

// Repr is repr(v).
func Repr(v *Value) (string, error) {
	p := &printer{}
	if err := p.value(v); err != nil {
		return "", err
	}
	return p.String(), nil
}

func (p *printer) value(v *Value) error {
	if v.kind == Text && len(v.raw) > maxText || p.Len() > maxText {
		return Failed("A value of the data has more than %d bytes as text, too many for rules", maxText)
	}
	switch v.kind {
	case None:
		p.WriteString("None")
	case Bool:
		p.WriteString(map[byte]string{'t': "True", 'f': "False"}[v.raw[0]])
	case Int, Float:
		n, err := v.number()
		if err != nil {
			return err
		}
		p.WriteString(n.String())
	case Text:
		p.text(v.Text())
	default:
		return p.container(v)
	}
	return nil
}

func (p *printer) container(v *Value) error {
	k, err := v.Split()
	if err != nil {
		return err
	}
	open, shut := byte('['), byte(']')
	if v.kind == Dict {
		open, shut = '{', '}'
	}
	p.WriteByte(open)
	for i, kid := range k.Values {
		if i > 0 {
			p.WriteString(", ")
		}
		if v.kind == Dict {
			p.text(k.Names[i])
			p.WriteString(": ")
		}
		if err := p.value(kid); err != nil {
			return err
		}
	}
	p.WriteByte(shut)
	return nil
}

// ReprText is repr() of a string.
func ReprText(text string) string {
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

// Equal is a == b.
func Equal(a, b *Value) (bool, error) {
	if isNumeric(a) && isNumeric(b) {
		order, ordered, err := compareNumeric(a, b)
		return ordered && order == 0, err
	}
	if a.kind != b.kind {
		return false, nil
	}
	switch a.kind {
	case None:
		return true, nil
	case Text:
		return a.Text() == b.Text(), nil
	}
	// Two lists, or two dicts, whose order does not matter.
	x, y, err := both(a, b, (*Value).Split)
	if err != nil || len(x.Values) != len(y.Values) {
		return false, err
	}
	for i, kid := range x.Values {
		other := y.Values[i]
		if x.Names != nil {
			if other, err = b.Member(x.Names[i]); err != nil || other == nil {
				return false, err
			}
		}
		if same, err := Equal(kid, other); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

func isNumeric(v *Value) bool { k := v.kind; return k == Bool || k == Int || k == Float }

// both reads two values in the same way.
func both[T any](a, b *Value, read func(*Value) (T, error)) (x, y T, err error) {
	if x, err = read(a); err == nil {
		y, err = read(b)
	}
	return x, y, err
}

func compareNumeric(a, b *Value) (order int, ordered bool, err error) {
	x, y, err := both(a, b, (*Value).number)
	if err != nil {
		return 0, false, err
	}
	order, ordered = compareNumbers(x, y)
	return order, ordered, nil
}

// Compare orders two values; sign is the operator, for the text of what cannot
// be ordered. ordered is false if a number is none (NaN).
func Compare(a, b *Value, sign string) (order int, ordered bool, err error) {
	switch {
	case isNumeric(a) && isNumeric(b):
		return compareNumeric(a, b)
	case a.kind == Text && b.kind == Text:
		return strings.Compare(a.Text(), b.Text()), true, nil // UTF-8 keeps the order of characters
	case a.kind != List || b.kind != List:
		return 0, false, Raise("TypeError", "'%s' not supported between instances of '%v' and '%v'", sign, a.kind, b.kind)
	}
	// Lists are ordered by the first elements that differ, then by length.
	x, y, err := both(a, b, (*Value).Split)
	if err != nil {
		return 0, false, err
	}
	for i := range min(len(x.Values), len(y.Values)) {
		if same, err := Equal(x.Values[i], y.Values[i]); err != nil {
			return 0, false, err
		} else if !same {
			return Compare(x.Values[i], y.Values[i], sign)
		}
	}
	return len(x.Values) - len(y.Values), true, nil
}

// Contains reports whether one of values equals v.
func Contains(values []*Value, v *Value) (bool, error) {
	for _, other := range values {
		if same, err := Equal(other, v); err != nil || same {
			return same, err
		}
	}
	return false, nil
}
