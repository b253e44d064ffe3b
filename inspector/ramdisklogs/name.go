package ramdisklogs

import (
	"fmt"
	"strings"
	"time"
)

// unknown is what a name says of what is not known.
const unknown = "unknown"

// maxName is the longest name that file systems take, in bytes.
const maxName = 255

// name makes a file's name of a format in Python's syntax: {uuid}, {mac}, {bmc}
// and {dt:…} with strftime's letters; doubled braces stand for themselves.
func name(format string, fields map[string]string, at time.Time) (string, error) {
	var out strings.Builder
	for rest := format; rest != ""; {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			out.WriteString(rest)
			break
		}
		out.WriteString(rest[:i])
		if rest = rest[i:]; strings.HasPrefix(rest, "{{") || strings.HasPrefix(rest, "}}") {
			out.WriteByte(rest[0])
			rest = rest[2:]
			continue
		}
		field, after, closed := strings.Cut(rest[1:], "}")
		if rest[0] == '}' || !closed {
			return "", fmt.Errorf("a brace of %q has no other one", format)
		}
		text, err := value(field, fields, at)
		if err != nil {
			return "", err
		}
		out.WriteString(text)
		rest = after
	}
	return checked(out.String())
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
	if text == "" {
		return unknown, nil
	}
	return text, nil
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
	if spec == "" {
		return at.Format("2006-01-02 15:04:05.000000"), nil
	}
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
