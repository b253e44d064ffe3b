package hooks

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/trivet-ha/trivet/inspector/document"
)

// comparison is the expression of a hint: "<or> sata <or> nvme", "s== wd", ">= 60".
// The grammar is that of Ironic's hints, down to its oddities: the ramdisk reads
// the same hints with the same grammar when it chooses where to install, and
// both must mean the same disk.
type comparison struct {
	op     string
	values []string // one, or any number after <or> and <all-in>
}

// The operators that take several values.
const (
	opOr    = "<or>"
	opAllIn = "<all-in>"
)

// unaryOperators in the order in which they are tried: of two that begin alike
// the longer first.
func unaryOperators() []string {
	return []string{"==", "=", "!=", "<in>", ">=", "<=", ">", "<", "s==", "s!=", "s<=", "s<", "s>=", "s>"}
}

// skipSpace drops what may stand between an operator and a value.
func skipSpace(text string) string { return strings.TrimLeft(text, " \n\t\r") }

// word splits off a value: it begins with no operator and ends before white
// space. "" if there is none.
func word(text string) (value, rest string) {
	text = skipSpace(text)
	if slices.ContainsFunc(append(unaryOperators(), opAllIn, opOr),
		func(op string) bool { return strings.HasPrefix(text, op) }) {
		return "", text
	}
	end := strings.IndexFunc(text, unicode.IsSpace)
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[end:]
}

// parseComparison reads an expression as far as it is one; what follows is
// ignored. The operator is "" for a value alone. It fails on an operator
// without a value.
func parseComparison(text string) (comparison, bool) {
	text = skipSpace(text)
	for _, read := range []func(string) []string{alternatives, collection} {
		if values := read(text); len(values) > 0 {
			op := opOr
			if strings.HasPrefix(text, opAllIn) {
				op = opAllIn
			}
			return comparison{op, values}, true
		}
	}
	for _, op := range unaryOperators() {
		if rest, found := strings.CutPrefix(text, op); found {
			value, _ := word(rest)
			return comparison{op, []string{value}}, value != ""
		}
	}
	value, _ := word(text)
	return comparison{"", []string{value}}, value != ""
}

// alternatives reads <or> VALUE <or> VALUE.
func alternatives(text string) (values []string) {
	for {
		rest, found := strings.CutPrefix(skipSpace(text), opOr)
		if !found {
			return values
		}
		value, rest := word(rest)
		if value == "" {
			return values
		}
		values, text = append(values, value), rest
	}
}

// collection reads <all-in> VALUE VALUE.
func collection(text string) (values []string) {
	rest, found := strings.CutPrefix(text, opAllIn)
	if !found {
		return nil
	}
	for {
		value, after := word(rest)
		if value == "" {
			return values
		}
		values, rest = append(values, value), after
	}
}

// normalized lowers an expression and quotes its values as in URLs, so that they
// hold no white space and no operators. Both sides of a comparison are: an
// attribute of a disk that reads like an expression stays comparable to a hint
// that does. It fails where parseComparison does.
func normalized(text string) (string, bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	c, ok := parseComparison(text)
	if !ok {
		return "", false
	}
	if c.op == "" {
		return urlQuoted(text), true
	}
	var values []string
	for value := range strings.SplitSeq(text, c.op) {
		if value != "" {
			values = append(values, " "+urlQuoted(strings.TrimSpace(value))+" ")
		}
	}
	return strings.TrimSpace(c.op + strings.Join(values, c.op)), true
}

// urlQuoted quotes all but letters, digits and _.-~/ of ASCII.
func urlQuoted(text string) string {
	var out strings.Builder
	for _, b := range []byte(text) {
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', strings.IndexByte("_.-~/", b) >= 0:
			out.WriteByte(b)
		default:
			fmt.Fprintf(&out, "%%%02X", b)
		}
	}
	return out.String()
}

// holdsText compares a normalized attribute. An error says that the hint cannot
// be compared with it.
func (c comparison) holdsText(have string) (bool, error) {
	switch c.op {
	case "<in>":
		return strings.Contains(have, c.values[0]), nil
	case opOr:
		return slices.Contains(c.values, have), nil
	case opAllIn:
		return false, c.notComparable("a list")
	}
	if sign, ofText := strings.CutPrefix(c.op, "s"); ofText {
		return holds(sign, have, c.values[0]), nil
	}
	number, err := document.ParseFloat(have)
	if err != nil {
		return false, err
	}
	return c.compare(number)
}

// holdsNumber compares a number. Operators on text never hold, or are refused:
// no number equals a text.
func (c comparison) holdsNumber(have float64) (bool, error) {
	switch c.op {
	case "s==", opOr:
		return false, nil
	case "s!=":
		return true, nil
	case "s<", "s<=", "s>", "s>=", "<in>":
		return false, c.notComparable("text")
	case opAllIn:
		return false, c.notComparable("a list")
	}
	return c.compare(have)
}

func (c comparison) notComparable(with string) error {
	return fmt.Errorf("the operator %s compares with %s, which this attribute of a disk is not", c.op, with)
}

// compare is the operators on numbers.
func (c comparison) compare(have float64) (bool, error) {
	want, err := document.ParseFloat(c.values[0])
	return err == nil && holds(c.op, have, want), err
}

// holds compares two texts or numbers. A single = means at least.
func holds[T string | float64](sign string, have, want T) bool {
	switch sign {
	case "==":
		return have == want
	case "!=":
		return have != want
	case ">":
		return have > want
	case "<":
		return have < want
	case "<=":
		return have <= want
	default: // = and >=
		return have >= want
	}
}
