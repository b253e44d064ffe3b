package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// parsed accepts the items that parse takes.
func parsed[T any](parse func(string) (T, error)) func(item string) bool {
	return func(item string) bool {
		_, err := parse(item)
		return err == nil
	}
}

// named accepts NAME=VALUE, if name and value do.
func named(name, value func(text string) bool) func(item string) bool {
	return func(item string) bool {
		of, text, found := strings.Cut(item, "=")
		return found && name(of) && value(text)
	}
}

// pairs is a list whose items all have the form that is written out.
func pairs(form string, is func(item string) bool) rule {
	return listOf("list of "+form, func(item string) *fault {
		f := plain(item)
		if f == nil && !is(item) {
			f = &fault{fmt.Sprintf("%.80q is not %s", item, form), "write it as " + form}
		}
		return f
	})
}

// listOf is a list with which judge finds no fault, and no item twice.
func listOf(text string, judge func(item string) *fault) rule {
	return rule{text: text, check: func(v any) *fault {
		list := v.([]string)
		if len(list) > maxList {
			return &fault{fmt.Sprintf("has %d items", len(list)), fmt.Sprintf("at most %d", maxList)}
		}
		for i, item := range list {
			if f := judge(item); f != nil {
				return f
			}
			if slices.Contains(list[:i], item) {
				return &fault{fmt.Sprintf("%.80q stands in the list twice", item), "remove one"}
			}
		}
		return nil
	}}
}

// userNames is a list of users, who may have been pasted with what stands behind
// their colon in a file of users.
func userNames() rule {
	r := pairs("user names", func(item string) bool {
		return item != "" && len(item) <= 255 && !strings.Contains(item, ":") && !strings.HasPrefix(item, "#")
	})
	judge := r.check
	r.check = func(v any) *fault {
		for i, item := range v.([]string) {
			if strings.Contains(item, ":") {
				return &fault{fmt.Sprintf("item %d holds a colon, and what follows it is not shown", i+1), "write names alone"}
			}
		}
		return judge(v)
	}
	return r
}

func isFieldPair(item string) bool {
	name, value, found := strings.Cut(item, ":")
	return found && name != "" && value != ""
}

// isPCIAlias reports whether an item is two numbers of PCI, in hexadecimal, and
// a name that can stand among capabilities.
func isPCIAlias(item string) bool {
	vendor, rest, _ := strings.Cut(item, ":")
	product, name, found := strings.Cut(rest, ":")
	return found && isPCINumber(vendor) && isPCINumber(product) && name != "" && !strings.ContainsAny(name, ":,")
}

func isPCINumber(text string) bool {
	return len(text) == 4 && strings.Trim(strings.ToLower(text), "0123456789abcdef") == ""
}

// isCIDRPair splits at the last colon: the others are IPv6's.
func isCIDRPair(item string) bool {
	i := strings.LastIndexByte(item, ':')
	if i < 0 || i == len(item)-1 {
		return false
	}
	_, err := netip.ParsePrefix(item[:i])
	return err == nil
}

// isDriverName keeps to what Ironic calls its drivers and what needs no escapes.
func isDriverName(name string) bool { return isName(name, alphanumeric+"._-", "", 255) }

// fileNameFormat is a name in one directory whose fields are known.
func fileNameFormat() rule {
	return rule{text: "file name with the fields {uuid}, {bmc}, {mac}, {dt:…}", check: func(v any) *fault {
		format := v.(string)
		if format == "" || len(format) > 200 || strings.ContainsAny(format, "/\x00") {
			return &fault{fmt.Sprintf("%.80q is not a file name", format), "write up to 200 bytes without /"}
		}
		for rest := format; ; {
			open := strings.IndexAny(rest, "{}")
			if open < 0 {
				return plain(format)
			}
			end := strings.IndexByte(rest[open:], '}')
			if rest[open] != '{' || end < 0 {
				return &fault{fmt.Sprintf("%.80q has a brace without its other half", format), "write a field as {uuid}"}
			}
			field, _, _ := strings.Cut(rest[open+1:open+end], ":")
			if !slices.Contains([]string{"uuid", "bmc", "mac", "dt"}, field) {
				return &fault{fmt.Sprintf("{%.40s} is not a field", field), "the fields are {uuid}, {bmc}, {mac} and {dt:…}"}
			}
			rest = rest[open+end+1:]
		}
	}}
}
