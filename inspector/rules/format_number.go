package rules

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// formatNumber is format() of a number with a specification that is not empty.
func formatNumber(n *number, k kind, specText string) (string, error) {
	spec, err := parseSpec(specText, k, '>')
	if err != nil {
		return "", err
	}
	switch {
	case n.whole != nil && (spec.kind == 0 || strings.ContainsRune("bcdoxXn", spec.kind)):
		return spec.formatInt(n.whole)
	case spec.kind != 0 && !strings.ContainsRune("eEfFgGn%", spec.kind):
		return "", unknownCode(spec.kind, k)
	}
	f, err := n.toFloat()
	if err != nil {
		return "", err
	}
	return spec.formatFloat(f), nil
}

// bases are how presentation types write an int.
var bases = map[rune]struct {
	base   int
	prefix string
	group  int
}{'b': {2, "0b", 4}, 'o': {8, "0o", 4}, 'x': {16, "0x", 4}, 'X': {16, "0X", 4}}

func (s formatSpec) formatInt(n *big.Int) (string, error) {
	switch {
	case s.precision >= 0:
		return "", raise("ValueError", "Precision not allowed in integer format specifier")
	case s.zero:
		return "", raise("ValueError", "Negative zero coercion (z) not allowed in integer format specifier")
	case s.kind == 'c':
		return s.formatCharacter(n)
	}
	base, prefix, size := 10, "", 3
	if b, ok := bases[s.kind]; ok {
		base, size = b.base, b.group
		if s.alternate {
			prefix = b.prefix
		}
	}
	digits := new(big.Int).Abs(n).Text(base)
	if s.kind == 'X' {
		digits = strings.ToUpper(digits)
	}
	head := s.signOf(n.Sign() < 0) + prefix
	return s.pad(head, s.grouped(digits, size, len(head))), nil
}

func (s formatSpec) formatCharacter(n *big.Int) (string, error) {
	switch {
	case s.sign != 0:
		return "", raise("ValueError", "Sign not allowed with integer format specifier 'c'")
	case s.alternate:
		return "", raise("ValueError", "Alternate form (#) not allowed with integer format specifier 'c'")
	case !n.IsInt64():
		return "", raise("OverflowError", "Python int too large to convert to C long")
	case n.Sign() < 0 || n.Int64() > unicode.MaxRune:
		return "", raise("OverflowError", "%%c arg not in range(0x110000)")
	}
	return s.pad("", string(rune(n.Int64()))), nil
}

func (s formatSpec) signOf(negative bool) string {
	switch {
	case negative:
		return "-"
	case s.sign == '+', s.sign == ' ':
		return string(s.sign)
	default:
		return ""
	}
}

func (s formatSpec) formatFloat(f float64) string {
	end := ""
	if s.kind == '%' {
		f, end = f*100, "%"
	}
	text := s.digits(math.Abs(f))
	negative := math.Signbit(f) && !math.IsNaN(f)
	if s.zero && strings.Trim(text, "0.eE+-") == "" {
		negative = false
	}
	head := s.signOf(negative)
	whole := text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
	rest := text[len(whole):] + end
	if whole == "" { // infinity, or no number
		return s.pad(head, rest)
	}
	return s.pad(head, s.grouped(whole, 3, len(head)+len(rest))+rest)
}

// digits writes a float that is not negative as its presentation type says.
func (s formatSpec) digits(f float64) string {
	upper := unicode.IsUpper(s.kind)
	text := s.notation(f)
	if upper {
		return strings.ToUpper(text)
	}
	return text
}

func (s formatSpec) notation(f float64) string {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return floatText(f)
	}
	precision := s.precision
	if precision < 0 {
		precision = 6
	}
	switch s.kind {
	case 'e', 'E':
		return s.pointed(strconv.FormatFloat(f, 'e', precision, 64))
	case 'f', 'F', '%':
		return s.pointed(strconv.FormatFloat(f, 'f', precision, 64))
	case 0:
		if s.precision < 0 {
			return s.shortest(f)
		}
		return s.general(f, s.precision, true)
	default:
		return s.general(f, precision, false)
	}
}

// shortest is how str() writes a float.
func (s formatSpec) shortest(f float64) string { return s.pointed(floatText(f)) }

// pointed puts in the decimal point that # asks for.
func (s formatSpec) pointed(text string) string {
	if !s.alternate || strings.Contains(text, ".") {
		return text
	}
	if at := strings.IndexByte(text, 'e'); at >= 0 {
		return text[:at] + "." + text[at:]
	}
	return text + "."
}

// general writes so many significant digits, with an exponent if the number is
// very large or small. dot: a number without a fraction gets .0, as from str().
func (s formatSpec) general(f float64, precision int, dot bool) string {
	precision = max(precision, 1)
	scientific := strconv.FormatFloat(f, 'e', precision-1, 64)
	mantissa, exponentText, _ := strings.Cut(scientific, "e")
	exponent, err := strconv.Atoi(exponentText)
	if err != nil {
		return scientific // FormatFloat always writes one
	}
	most := precision
	if dot {
		most--
	}
	if exponent < -4 || exponent >= most {
		if !s.alternate {
			mantissa = trimFraction(mantissa)
		}
		return s.pointed(mantissa + "e" + exponentText)
	}
	text := strconv.FormatFloat(f, 'f', max(precision-1-exponent, 0), 64)
	if !s.alternate {
		text = trimFraction(text)
	}
	if dot && !strings.Contains(text, ".") {
		return text + ".0"
	}
	return s.pointed(text)
}

// trimFraction takes zeros off the end of a fraction, and a point that is left.
func trimFraction(text string) string {
	if !strings.Contains(text, ".") {
		return text
	}
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
