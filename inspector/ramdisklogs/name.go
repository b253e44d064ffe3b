package ramdisklogs

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// unknown is what a name says of what is not known.
const unknown = "unknown"

// maxName is the longest name that file systems take, in bytes.
const maxName = 255

// piece is a part of a format: text, or a field, which stands in braces.
type piece struct {
	text  string
	field bool
}

// split cuts a format in Python's syntax into its pieces: {uuid}, {mac}, {bmc}
// and {dt:…} with strftime's letters; doubled braces stand for themselves.
func split(format string) (pieces []piece, err error) {
	for rest := format; rest != ""; {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			return append(pieces, piece{text: rest}), nil
		}
		pieces = append(pieces, piece{text: rest[:i]})
		if rest = rest[i:]; strings.HasPrefix(rest, "{{") || strings.HasPrefix(rest, "}}") {
			pieces = append(pieces, piece{text: rest[:1]})
			rest = rest[2:]
			continue
		}
		field, after, closed := strings.Cut(rest[1:], "}")
		if rest[0] == '}' || !closed {
			return nil, fmt.Errorf("unbalanced brace in %q", format)
		}
		pieces = append(pieces, piece{text: field, field: true})
		rest = after
	}
	return pieces, nil
}

// name makes a file's name of a format.
func name(format string, fields map[string]string, at time.Time) (string, error) {
	pieces, err := split(format)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, p := range pieces {
		text := p.text
		if p.field {
			if text, err = value(p.text, fields, at); err != nil {
				return "", err
			}
		}
		out.WriteString(text)
	}
	return checked(out.String())
}

// pattern matches the names that a format makes, and hardly any others: the
// directory may hold files of other programs. Its groups are the nodes' UUIDs.
func pattern(format string) (*regexp.Regexp, error) {
	pieces, err := split(format)
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	for _, p := range pieces {
		key, spec, _ := strings.Cut(p.text, ":")
		switch {
		case !p.field:
			out.WriteString(regexp.QuoteMeta(p.text))
		case key == "uuid":
			out.WriteString("(" + unknown + "|[0-9a-f-]{36})")
		case key == "mac":
			out.WriteString("(?:" + unknown + "|[0-9a-f:]{17})")
		case key == "bmc":
			out.WriteString("(?:" + unknown + "|[0-9a-f.:]{2,45})")
		default:
			out.WriteString(timePattern(spec))
		}
	}
	return regexp.Compile("^" + out.String() + "$")
}

// usualTime is the format of a moment that has none.
const usualTime = "%Y-%m-%d %H:%M:%S.%f"

// timePattern matches what strftime makes of a format.
func timePattern(spec string) string {
	spec = cmp.Or(spec, usualTime)
	var out strings.Builder
	for i := 0; i < len(spec); i++ {
		if spec[i] != '%' || i+1 == len(spec) {
			out.WriteString(regexp.QuoteMeta(spec[i : i+1]))
			continue
		}
		i++
		switch spec[i] {
		case '%':
			out.WriteByte('%')
		case 'b', 'B', 'a', 'A', 'p', 'Z':
			out.WriteString("[A-Za-z]+")
		case 'z':
			out.WriteString(`[+-]\d{4}`)
		default:
			out.WriteString(`\d+`)
		}
	}
	return out.String()
}

// value is what stands for one pair of braces.
func value(field string, fields map[string]string, at time.Time) (string, error) {
	key, spec, _ := strings.Cut(field, ":")
	if key == "dt" {
		return strftime(spec, at)
	}
	text, known := fields[key]
	if !known || spec != "" {
		return "", fmt.Errorf("{%s} is none of {uuid}, {mac}, {bmc} and {dt:…}", field)
	}
	return cmp.Or(text, unknown), nil
}

// letters are those of strftime that name a moment, and how Go writes them.
func letters(letter byte) (layout string, ok bool) {
	layout, ok = map[byte]string{
		'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM",
		'b': "Jan", 'B': "January", 'a': "Mon", 'A': "Monday", 'j': "002", 'z': "-0700", 'Z': "MST",
	}[letter]
	return layout, ok
}

func strftime(spec string, at time.Time) (string, error) {
	spec = cmp.Or(spec, usualTime)
	var out strings.Builder
	for i := 0; i < len(spec); i++ {
		if spec[i] != '%' {
			out.WriteByte(spec[i])
			continue
		}
		if i++; i == len(spec) {
			return "", fmt.Errorf("the time's format %q ends with a percent sign", spec)
		}
		layout, ok := letters(spec[i])
		switch {
		case ok:
			out.WriteString(at.Format(layout))
		case spec[i] == 'f':
			fmt.Fprintf(&out, "%06d", at.Nanosecond()/int(time.Microsecond))
		case spec[i] == 's':
			fmt.Fprint(&out, at.Unix())
		case spec[i] == '%':
			out.WriteByte('%')
		default:
			return "", fmt.Errorf("the time's format %q has %%%c, which is not known here", spec, spec[i])
		}
	}
	return out.String(), nil
}

// checked refuses what is no name of a file in one directory.
func checked(name string) (string, error) {
	switch {
	case name == "" || strings.HasPrefix(name, "."):
		return "", fmt.Errorf("the name %q is empty or begins with a dot", name)
	case strings.ContainsAny(name, "/\x00"):
		return "", fmt.Errorf("the name %q has a slash or a zero byte", name)
	case len(name) > maxName:
		return "", fmt.Errorf("the name %q has more than %d bytes", name, maxName)
	}
	return name, nil
}
