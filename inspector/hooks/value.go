package hooks

import (
	"fmt"
	"strings"

	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/internal/bounds"
)

// object is a JSON object somewhere in a document. Its methods read members by
// their exact names; what has the wrong shape is a Problem that names its place.
type object struct {
	where   string // the path to it, as inventory.interfaces[0]
	members *document.Parts
	value   *document.Value
}

// objectOf reads a value that must be an object.
func objectOf(where string, v *document.Value) (object, error) {
	if v.Kind() != document.Dict {
		return object{}, document.Failed("%s: expected an object, got %s", where, v.Kind().InWords())
	}
	members, err := v.Split()
	if err != nil {
		return object{}, document.Failed("%s: %v", where, err)
	}
	return object{where, members, v}, nil
}

// text returns a member's text, "" if it is missing or null.
func (o object) text(name string) (string, error) {
	return textOf(o.where+"."+name, o.members.Get(name))
}

func textOf(where string, v *document.Value) (string, error) {
	if k := v.Kind(); k != document.None && k != document.Text {
		return "", document.Failed("%s: expected text, got %s", where, k.InWords())
	}
	return v.Text(), nil
}

// objects returns the elements of a member that is a list of objects; none if it
// is missing or null. More than most are a Problem.
func (o object) objects(name string, most int) ([]object, error) {
	return objectsOf(o.where+"."+name, o.members.Get(name), most)
}

func objectsOf(where string, v *document.Value, most int) ([]object, error) {
	elements, err := elementsOf(where, v, most)
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
func elementsOf(where string, v *document.Value, most int) ([]*document.Value, error) {
	if k := v.Kind(); k != document.None && k != document.List {
		return nil, document.Failed("%s: expected a list, got %s", where, k.InWords())
	}
	elements, all, err := v.Elements(most)
	if err != nil {
		return nil, document.Failed("%s: %v", where, err)
	}
	if all > most {
		return nil, document.Failed("%s: %d items are more than the %d that are considered", where, all, most)
	}
	return elements, nil
}

// with returns the object with a member set, in its old place if it has one.
func (o object) with(name string, value []byte) object {
	members := o.members.With(name, value)
	return object{o.where, members, document.Checked(members.JSON())}
}

// python writes a value of Ironic's as Python's str or repr does.
func python(print func(*document.Value) (string, error), written any) string {
	v, err := document.Of(written)
	if err == nil {
		var text string
		if text, err = print(v); err == nil {
			return text
		}
	}
	return err.Error()
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

// inventoryOf returns what the ramdisk found, with the interfaces that it must
// have found. The texts are the contract's.
func inventoryOf(d *document.Document) (object, error) {
	const where = "inventory"
	v := d.Value(where)
	if v.Empty() {
		return object{}, document.Failed("Hardware inventory is empty or missing")
	}
	inventory, err := objectOf(where, v)
	if err != nil {
		return object{}, err
	}
	if inventory.members.Get("interfaces").Empty() {
		return object{}, document.Failed("No network interfaces provided in the inventory")
	}
	// A machine without disks gets a list of none, as in the original: rules may count on it.
	if disks := inventory.members.Get("disks"); disks.Empty() && disks.Kind() != document.List {
		inventory = inventory.with("disks", []byte("[]"))
		err = d.Set(inventory.where, inventory.value.Raw())
	}
	return inventory, err
}

// clipped is what a message repeats of a text.
func clipped(text string) string { return bounds.Excerpt(text, maxText) }
