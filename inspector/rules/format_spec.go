package rules

import (
	"slices"
	"strconv"
	"strings"

	"github.com/trivet-ha/trivet/inspector"
)

// formatSpec is Python's format specification mini-language.
type formatSpec struct {
	fill      rune
	align     rune // 0: that of the type
	sign      rune // 0: -
	zero      bool // z: a negative zero is none
	alternate bool // #
	width     int  // -1: none
	group     rune // , or _ between digits; 0: nothing
	precision int  // -1: none
	kind      rune // the presentation type; 0: that of the type
}

// specReader reads a specification of a value of a kind.
type specReader struct {
	text []rune
	at   int
	of   kind
}

func (s *specReader) peek(n int) rune {
	if s.at+n < len(s.text) {
		return s.text[s.at+n]
	}
	return 0
}

// one steps over one of some characters and returns it, 0 if none comes next.
func (s *specReader) one(of string) rune {
	r := s.peek(0)
	if r == 0 || !strings.ContainsRune(of, r) {
		return 0
	}
	s.at++
	return r
}

const aligns = "<>=^"

// parseSpec reads a specification. byDefault is the alignment of the type.
func parseSpec(text string, of kind, byDefault rune) (formatSpec, error) {
	s := &specReader{text: []rune(text), of: of}
	spec := formatSpec{fill: ' '}
	filled := false
	if r := s.peek(1); r != 0 && strings.ContainsRune(aligns, r) {
		spec.fill, spec.align, filled = s.peek(0), r, true
		s.at += 2
	} else {
		spec.align = s.one(aligns)
	}
	spec.sign = s.one(" +-")
	spec.zero = s.one("z") != 0
	spec.alternate = s.one("#") != 0
	if !filled && s.one("0") != 0 {
		spec.fill = '0'
		if spec.align == 0 && byDefault == '>' {
			spec.align = '='
		}
	}
	var err error
	if spec.width, err = s.number("width"); err != nil {
		return spec, err
	}
	if err := s.tail(&spec); err != nil {
		return spec, err
	}
	if spec.align == 0 {
		spec.align = byDefault
	}
	return spec, s.checkGroup(spec)
}

// tail reads what follows the width.
func (s *specReader) tail(spec *formatSpec) (err error) {
	spec.group = s.one(",")
	if r := s.one("_"); r != 0 {
		if spec.group != 0 {
			return raise("ValueError", "Cannot specify both ',' and '_'.")
		}
		spec.group = r
	}
	if s.peek(0) == ',' && spec.group == '_' {
		return raise("ValueError", "Cannot specify both ',' and '_'.")
	}
	spec.precision = -1
	if s.one(".") != 0 {
		if spec.precision, err = s.number("precision"); err != nil {
			return err
		}
		if spec.precision < 0 {
			return raise("ValueError", "Format specifier missing precision")
		}
	}
	switch len(s.text) - s.at {
	case 0:
	case 1:
		spec.kind = s.text[s.at]
	default:
		return raise("ValueError", "Invalid format specifier '%s' for object of type '%v'", clip(string(s.text)), s.of)
	}
	return nil
}

// number reads digits, -1 if there are none.
func (s *specReader) number(what string) (int, error) {
	from := s.at
	for isDecimal(s.peek(0)) && s.at < len(s.text) {
		s.at++
	}
	if s.at == from {
		return -1, nil
	}
	digits := string(s.text[from:s.at])
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0, raise("ValueError", "Too many decimal digits in format string")
	}
	if n > maxWidth && (what == "width" || s.of != kindInt) {
		return 0, inspector.Failed("A format has the %s %d, allowed are %d", what, n, maxWidth)
	}
	return n, nil
}

// checkGroup refuses groups of digits where there are none.
func (s *specReader) checkGroup(spec formatSpec) error {
	if spec.group == 0 {
		return nil
	}
	allowed := "deEfFgG%"
	if spec.group == '_' {
		allowed += "boxX"
	}
	presentation := spec.kind
	if presentation == 0 && s.of == kindText {
		presentation = 's'
	}
	if presentation == 0 || strings.ContainsRune(allowed, presentation) {
		return nil
	}
	return raise("ValueError", "Cannot specify '%c' with '%s'.", spec.group, printable(presentation))
}

// formatValue is format(v, spec).
func formatValue(v *value, spec string) (string, error) {
	k := v.kind()
	switch {
	case spec == "":
		return str(v)
	case k == kindText:
		return formatText(v.text(), spec)
	case k == kindBool, k == kindInt, k == kindFloat:
		n, err := v.number()
		if err != nil {
			return "", err
		}
		return formatNumber(n, k, spec)
	default:
		return "", raise("TypeError", "unsupported format string passed to %v.__format__", k)
	}
}

func formatText(text, specText string) (string, error) {
	spec, err := parseSpec(specText, kindText, '<')
	if err != nil {
		return "", err
	}
	switch {
	case spec.kind != 0 && spec.kind != 's':
		return "", unknownCode(spec.kind, kindText)
	case spec.sign == ' ':
		return "", raise("ValueError", "Space not allowed in string format specifier")
	case spec.sign != 0:
		return "", raise("ValueError", "Sign not allowed in string format specifier")
	case spec.zero:
		return "", raise("ValueError", "Negative zero coercion (z) not allowed in string format specifier")
	case spec.alternate:
		return "", raise("ValueError", "Alternate form (#) not allowed in string format specifier")
	case spec.align == '=':
		return "", raise("ValueError", "'=' alignment not allowed in string format specifier")
	}
	if spec.precision >= 0 {
		characters := []rune(text)
		text = string(characters[:min(spec.precision, len(characters))])
	}
	return spec.pad("", text), nil
}

func unknownCode(code rune, k kind) error {
	return raise("ValueError", "Unknown format code '%s' for object of type '%v'", printable(code), k)
}

// pad brings head and tail to the width; the fill stands between them if the
// alignment is =.
func (s formatSpec) pad(head, tail string) string {
	missing := s.width - runes(head) - runes(tail)
	if missing <= 0 {
		return head + tail
	}
	fill := func(n int) string { return strings.Repeat(string(s.fill), n) }
	switch s.align {
	case '<':
		return head + tail + fill(missing)
	case '^':
		return fill(missing/2) + head + tail + fill(missing-missing/2)
	case '=':
		return head + fill(missing) + tail
	default:
		return fill(missing) + head + tail
	}
}

// grouped puts the group's character between digits, size by size. If zeros are
// to fill the width they are part of the groups: digits and rest get that wide
// at least.
func (s formatSpec) grouped(digits string, size, taken int) string {
	if s.group == 0 {
		return digits
	}
	least := 0
	if s.fill == '0' && s.align == '=' {
		least = s.width - taken
	}
	var out []rune // backwards
	for i, n := len(digits)-1, 0; i >= 0 || len(out) < least; i, n = i-1, n+1 {
		if n > 0 && n%size == 0 {
			out = append(out, s.group)
		}
		if i >= 0 {
			out = append(out, rune(digits[i]))
		} else {
			out = append(out, '0')
		}
	}
	slices.Reverse(out)
	return string(out)
}
