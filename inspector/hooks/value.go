package hooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
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
	raw     json.RawMessage // as it stands in the document
}

// objectOf reads a value that must be an object.
func objectOf(where string, raw json.RawMessage) (object, error) {
	if kind := kindOf(raw); kind != "an object" {
		return object{}, wrong(where, kind)
	}
	members, err := inspector.Members(raw)
	return split(where, raw, members, err)
}

func wrong(where, kind string) error {
	return inspector.Failed("%s: expected an object, got %s", where, kind)
}

// split is an object at a place, or the Problem that it could not be split.
func split(where string, raw json.RawMessage, members inspector.Object, err error) (object, error) {
	if err != nil {
		return object{}, inspector.Failed("%s: %v", where, err)
	}
	return object{where, members, raw}, nil
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
		if bytes.IndexByte(raw, '\\') < 0 { // a document is UTF-8 throughout: nothing to decode
			return string(raw[1 : len(raw)-1]), nil
		}
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return "", inspector.Failed("%s: %v", where, err)
		}
		return text, nil
	default:
		return "", inspector.Failed("%s: expected text, got %s", where, kind)
	}
}

// objects returns the elements of a member that is a list of objects; none if it
// is missing or null. More than most are a Problem.
func (o object) objects(name string, most int) ([]object, error) {
	return objectsOf(o.where+"."+name, o.members.Get(name), most)
}

func objectsOf(where string, raw json.RawMessage, most int) ([]object, error) {
	elements, err := elementsOf(where, raw, most)
	if err != nil {
		return nil, err
	}
	list := make([]object, len(elements))
	for i, element := range elements {
		if list[i], err = objectOf(fmt.Sprintf("%s[%d]", where, i), element); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// elementsOf returns the elements of a list; none if it is missing or null.
func elementsOf(where string, raw json.RawMessage, most int) ([]json.RawMessage, error) {
	switch kind := kindOf(raw); kind {
	case "nothing":
		return nil, nil
	case "a list":
	default:
		return nil, inspector.Failed("%s: expected a list, got %s", where, kind)
	}
	elements, all, err := inspector.FirstElements(raw, most)
	if err != nil {
		return nil, inspector.Failed("%s: %v", where, err)
	}
	if all > most {
		return nil, inspector.Failed("%s: %d items are more than the %d that are considered", where, all, most)
	}
	return elements, nil
}

// with returns the object with a member set, in its old place if it has one.
func (o object) with(name string, value json.RawMessage) (object, error) {
	members := slices.DeleteFunc(slices.Clone(o.members), func(m inspector.Member) bool { return m.Name == name })
	at := min(slices.IndexFunc(o.members, func(m inspector.Member) bool { return m.Name == name }), len(members))
	if at < 0 {
		at = len(members)
	}
	members = slices.Insert(members, at, inspector.Member{Name: name, Value: value})
	text := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			text = append(text, ',')
		}
		name, err := json.Marshal(m.Name)
		if err != nil {
			return object{}, fmt.Errorf("%s.%s: %w", o.where, m.Name, err)
		}
		text = append(append(append(text, name...), ':'), m.Value...)
	}
	return object{o.where, members, append(text, '}')}, nil
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
		return len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0
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
	inventory, err := split(where, raw, members, err)
	if err != nil {
		return object{}, err
	}
	if isEmpty(inventory.members.Get("interfaces")) {
		return object{}, inspector.Failed("No network interfaces provided in the inventory")
	}
	return withDisks(d, inventory)
}

// withDisks gives the inventory of a machine without disks a list of none, as
// the original does: rules may count on it.
func withDisks(d *inspector.Document, inventory object) (object, error) {
	if disks := inventory.members.Get("disks"); !isEmpty(disks) || kindOf(disks) == "a list" {
		return inventory, nil
	}
	inventory, err := inventory.with("disks", json.RawMessage("[]"))
	if err != nil {
		return object{}, err
	}
	return inventory, d.Set(inventory.where, inventory.raw)
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
