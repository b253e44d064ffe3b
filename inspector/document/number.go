package document

import (
	"cmp"
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// maxDigits is how many digits an int may have as text, as in Python 3.11:
// reading more takes too long.
const maxDigits = 4300

// number is a Python number: an int of any size, or a float.
type number struct {
	whole *big.Int // nil: a float
	float float64
}

// String is str(), of a float the shortest digits that mean it.
func (n *number) String() string {
	f := n.float
	switch {
	case n.whole != nil:
		return n.whole.String()
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

// number reads a number; a bool is one, too.
func (v *Value) number() (*number, error) {
	if v.seen != nil {
		return v.seen.num, nil
	}
	switch v.kind {
	case Bool:
		whole := int64(0)
		if v.raw[0] == 't' {
			whole = 1
		}
		return &number{whole: big.NewInt(whole)}, nil
	case Float:
		f, _ := strconv.ParseFloat(string(v.raw), 64) // out of range it is an infinity, as in Python
		v.seen = &seen{num: &number{float: f}}
	default:
		whole, err := wholeNumber(string(v.raw))
		if err != nil {
			return nil, err
		}
		v.seen = &seen{num: &number{whole: whole}}
	}
	return v.seen.num, nil
}

// Whole is a value that is an int or a bool.
func (v *Value) Whole() (*big.Int, error) {
	n, err := v.number()
	if err != nil {
		return nil, err
	}
	return n.whole, nil
}

// wholeNumber reads decimal digits with a sign at most.
func wholeNumber(digits string) (*big.Int, error) {
	if len(digits) > maxDigits+1 {
		return nil, Raise("ValueError", "Exceeds the limit (%d digits) for integer string conversion", maxDigits)
	}
	whole, ok := new(big.Int).SetString(digits, 10)
	if !ok {
		return nil, Raise("ValueError", "invalid literal for int() with base 10: %s", ReprText(digits))
	}
	return whole, nil
}

// ParseInt is int(text).
func ParseInt(text string) (*big.Int, error) {
	digits, ok := plainNumber(text, isDigits)
	if !ok {
		return nil, Raise("ValueError", "invalid literal for int() with base 10: %s", Clip(ReprText(text)))
	}
	return wholeNumber(digits)
}

// ParseFloat is float(text).
func ParseFloat(text string) (float64, error) {
	plain, ok := plainNumber(text, isFloat)
	if !ok {
		return 0, Raise("ValueError", "could not convert string to float: %s", Clip(ReprText(text)))
	}
	f, _ := strconv.ParseFloat(plain, 64) // out of range it is an infinity, as in Python
	return f, nil
}

// ToInt is int(v).
func ToInt(v *Value) (*Value, error) {
	switch v.kind {
	case Text:
		whole, err := ParseInt(v.Text())
		if err != nil {
			return nil, err
		}
		return ofInt(whole), nil
	case Bool, Int, Float:
		n, err := v.number()
		switch {
		case err != nil:
			return nil, err
		case n.whole != nil:
			return ofInt(n.whole), nil
		case math.IsNaN(n.float):
			return nil, Raise("ValueError", "cannot convert float NaN to integer")
		case math.IsInf(n.float, 0):
			return nil, Raise("OverflowError", "cannot convert float infinity to integer")
		}
		whole, _ := big.NewFloat(n.float).Int(nil)
		return ofInt(whole), nil
	default:
		return nil, Raise("TypeError", "int() argument must be a string, a bytes-like object or a real number, not '%v'",
			v.kind)
	}
}

// ToFloat is float(v).
func ToFloat(v *Value) (*Value, error) {
	switch v.kind {
	case Text:
		f, err := ParseFloat(v.Text())
		if err != nil {
			return nil, err
		}
		return ofFloat(f), nil
	case Bool, Int, Float:
		n, err := v.number()
		if err != nil {
			return nil, err
		}
		if n.whole == nil {
			return ofFloat(n.float), nil
		}
		f, _ := new(big.Float).SetInt(n.whole).Float64()
		if math.IsInf(f, 0) {
			return nil, Raise("OverflowError", "int too large to convert to float")
		}
		return ofFloat(f), nil
	default:
		return nil, Raise("TypeError", "float() argument must be a string or a real number, not '%v'", v.kind)
	}
}

// plainNumber takes from a number's text what Python allows around and between
// its digits: white space, and single underscores.
func plainNumber(text string, valid func(string) bool) (string, bool) {
	text = strings.TrimFunc(text, unicode.IsSpace)
	for i := range len(text) {
		if text[i] == '_' && (i == 0 || i == len(text)-1 || !isDigit(text[i-1]) || !isDigit(text[i+1])) {
			return "", false
		}
	}
	text = strings.ReplaceAll(text, "_", "")
	return text, valid(text)
}

// isDigits reports whether text is digits with a sign at most.
func isDigits(text string) bool {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "-"), "+")
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// isFloat reports whether Python's float() takes a text. Go takes more, such as
// hexadecimal numbers.
func isFloat(text string) bool {
	if _, err := strconv.ParseFloat(text, 64); err != nil && !errors.Is(err, strconv.ErrRange) {
		return false
	}
	return !strings.ContainsAny(text, "xXpP")
}

// compareNumbers returns -1, 0 or 1, exactly; ordered is false if one is no
// number (NaN).
func compareNumbers(a, b *number) (order int, ordered bool) {
	switch {
	case a.whole != nil && b.whole != nil:
		return a.whole.Cmp(b.whole), true
	case math.IsNaN(a.float), math.IsNaN(b.float):
		return 0, false
	case a.whole == nil && b.whole == nil:
		return cmp.Compare(a.float, b.float), true
	case a.whole == nil:
		order, ordered = compareNumbers(b, a)
		return -order, ordered
	default:
		return new(big.Float).SetInt(a.whole).Cmp(big.NewFloat(b.float)), true
	}
}
