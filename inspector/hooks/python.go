package hooks

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// What the original, a Python program, makes of values: hints, counts and
// messages keep their meaning for those who come from it.

// quoted writes text as Python does, in single quotes unless it has some and no
// double ones.
func quoted(text string) string {
	quote := "'"
	if strings.Contains(text, "'") && !strings.Contains(text, `"`) {
		quote = `"`
	}
	var out strings.Builder
	out.WriteString(quote)
	for _, r := range text {
		switch {
		case string(r) == quote || r == '\\':
			out.WriteRune('\\')
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&out, `\x%02x`, r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteString(quote)
	return out.String()
}

// pythonStr writes a value of Ironic's as Python's str does.
func pythonStr(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	return pythonRepr(value)
}

// pythonRepr writes a value of Ironic's as Python's repr does, the members of
// objects in order of their names.
func pythonRepr(value any) string {
	switch v := value.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		return quoted(v)
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1e16 { // was written as a whole number
			return strconv.FormatInt(int64(v), 10)
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	case []any:
		var items []string
		for _, item := range v {
			items = append(items, pythonRepr(item))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		var members []string
		for name, member := range v {
			members = append(members, quoted(name)+": "+pythonRepr(member))
		}
		slices.Sort(members)
		return "{" + strings.Join(members, ", ") + "}"
	default:
		return fmt.Sprint(v)
	}
}

// pythonBool reads a word for true or false as OpenStack's options do.
func pythonBool(word string) (value, ok bool) {
	switch strings.ToLower(strings.TrimSpace(word)) {
	case "1", "t", "true", "on", "y", "yes":
		return true, true
	case "0", "f", "false", "off", "n", "no":
		return false, true
	default:
		return false, false
	}
}

// pythonFloat reads a number as Python's float does: no hexadecimal, and single
// underscores between digits.
func pythonFloat(text string) (float64, error) {
	plain, ok := withoutUnderscores(strings.TrimSpace(text))
	number, err := strconv.ParseFloat(plain, 64)
	if !ok || strings.ContainsAny(plain, "xXpP") || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("could not convert string to float: %s", clipped(quoted(text)))
	}
	return number, nil
}

// pythonInt reads a whole number as Python's int does and returns its digits,
// with a minus if it is negative and without zeros that say nothing. Like
// Python it reads no number of more than 4,300 digits.
func pythonInt(text string) (digits string, ok bool) {
	plain, ok := withoutUnderscores(strings.TrimSpace(text))
	sign := ""
	if rest, negative := strings.CutPrefix(plain, "-"); negative {
		plain, sign = rest, "-"
	} else {
		plain = strings.TrimPrefix(plain, "+")
	}
	if !ok || plain == "" || len(plain) > 4300 || strings.Trim(plain, "0123456789") != "" {
		return "", false
	}
	plain = strings.TrimLeft(plain, "0")
	if plain == "" {
		return "0", true
	}
	return sign + plain, true
}

// withoutUnderscores drops underscores, all of which must be between digits.
func withoutUnderscores(text string) (plain string, ok bool) {
	isDigit := func(i int) bool { return i >= 0 && i < len(text) && '0' <= text[i] && text[i] <= '9' }
	for i := range len(text) {
		if text[i] == '_' && (!isDigit(i-1) || !isDigit(i+1)) {
			return "", false
		}
	}
	return strings.ReplaceAll(text, "_", ""), true
}
