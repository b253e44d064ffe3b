package hooks

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/inspector"
)

// maxText bounds, in bytes, what a message repeats of a ramdisk's data: it is
// kept in the log and goes into answers.
const maxText = 4 << 10

// object is a JSON object somewhere in a document. Its methods read members by
// their exact names; what has the wrong shape is a Problem that names its place.
type object struct {
	where   string // the path to it, as inventory.interfaces[0]
	members inspector.Object
}

// objectOf reads a value that must be an object.
func objectOf(where string, raw json.RawMessage) (object, error) {
	if kind := kindOf(raw); kind != "an object" {
		return object{}, wrong(where, kind)
	}
	members, err := inspector.Members(raw)
	return split(where, members, err)
}

func wrong(where, kind string) error {
	return inspector.Failed("%s: expected an object, got %s", where, kind)
}

// split is an object at a place, or the Problem that it could not be split.
func split(where string, members inspector.Object, err error) (object, error) {
	if err != nil {
		return object{}, inspector.Failed("%s: %v", where, err)
	}
	return object{where, members}, nil
}

// text returns a member's text, "" if it is missing or null.
func (o object) text(name string) (string, error) {
	return textOf(o.where+"."+name, o.members.Get(name))
}

func textOf(where string, raw json.RawMessage) (string, error) {
	switch kind := kindOf(raw); kind {
	case "nothing":
		return "", nil
	case "text":
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return "", inspector.Failed("%s: %v", where, err)
		}
		return text, nil
	default:
		return "", inspector.Failed("%s: expected text, got %s", where, kind)
	}
}

// kindOf names a value's kind in words. What is missing and null are nothing.
func kindOf(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case 'n':
		return "nothing"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "text"
	case 't', 'f':
		return "true or false"
	default:
		return "a number"
	}
}

// isEmpty reports whether the original takes a value for nothing: null, "", [],
// {}, false, zero, and what is missing.
func isEmpty(raw json.RawMessage) bool {
	switch kindOf(raw) {
	case "nothing":
		return true
	case "text":
		return len(raw) == len(`""`)
	case "true or false":
		return raw[0] == 'f'
	case "a number":
		return !strings.ContainsAny(mantissa(string(raw)), "123456789")
	default:
		return strings.TrimSpace(string(raw[1:len(raw)-1])) == ""
	}
}

// mantissa is a number without its exponent, which makes no zero of it.
func mantissa(number string) string {
	before, _, _ := strings.Cut(strings.ToLower(number), "e")
	return before
}

// inventoryOf returns what the ramdisk found, with the interfaces that it must
// have found. The texts are the contract's.
func inventoryOf(d *inspector.Document) (object, error) {
	const where = "inventory"
	raw := d.Raw(where)
	if isEmpty(raw) {
		return object{}, inspector.Failed("Hardware inventory is empty or missing")
	}
	if kind := kindOf(raw); kind != "an object" {
		return object{}, wrong(where, kind)
	}
	members, err := d.Members(where)
	inventory, err := split(where, members, err)
	if err != nil {
		return object{}, err
	}
	if isEmpty(inventory.members.Get("interfaces")) {
		return object{}, inspector.Failed("No network interfaces provided in the inventory")
	}
	return inventory, nil
}

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

// clipped cuts text after maxText bytes, between two characters.
func clipped(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}
