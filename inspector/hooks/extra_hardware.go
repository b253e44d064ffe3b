package hooks

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
)

// extraItem is how many parts an item has: three names and a value.
const extraItem = 4

// extraHardware makes a tree of the flat list that the ramdisk's extra-hardware
// collector sends.
type extraHardware struct{ strict bool }

var _ inspector.After = extraHardware{}

// configured implements configurable.
func (extraHardware) configured(conf config.Inspection) (inspector.Hook, error) {
	return extraHardware{strict: conf.HookOptions.ExtraHardwareStrict}, nil
}

// Name implements inspector.Hook.
func (extraHardware) Name() string { return "extra_hardware" }

// After implements inspector.After. It sets extra and deletes data. A list that
// is not made of lists stays as it is; with strict it is deleted.
func (h extraHardware) After(_ context.Context, t *inspector.Task) error {
	const where = "data"
	list := t.Data.Value(where)
	if list == nil {
		return nil
	}
	tree, err := h.tree(where, list)
	if err != nil {
		return err
	}
	if tree == nil {
		t.Log.Warn("extra hardware data is not a list of lists of four", "node", t.Node().UUID, "strict", h.strict)
		if h.strict {
			t.Data.Delete(where)
		}
		return nil
	}
	if err := t.Data.Set("extra", tree); err != nil {
		return err
	}
	t.Data.Delete(where)
	return nil
}

// tree makes a tree of a list of lists, nil of anything else.
func (h extraHardware) tree(where string, list *document.Value) (*branch, error) {
	if list.Kind() != document.List {
		return nil, nil
	}
	items, err := elementsOf(where, list, maxExtraItems)
	if err != nil {
		return nil, err
	}
	tree := &branch{}
	for _, item := range items {
		if !h.add(tree, item) {
			return nil, nil
		}
	}
	return tree, nil
}

// add puts an item into the tree and reports whether it has the right shape.
// Items that are too short leave the names that they have, as in the original;
// of longer ones the rest is ignored.
func (h extraHardware) add(tree *branch, item *document.Value) bool {
	parts, all, err := item.Elements(extraItem)
	if item.Kind() != document.List || err != nil || h.strict && all != extraItem {
		return false
	}
	at := tree
	for i := 0; i < len(parts) && i < extraItem-2; i++ {
		name, ok := extraName(parts[i])
		if !ok {
			return true
		}
		at = at.child(name)
	}
	if len(parts) < extraItem {
		return true
	}
	if name, ok := extraName(parts[extraItem-2]); ok {
		if value, ok := extraValue(parts[extraItem-1]); ok {
			at.child(name).leaf = value
		}
	}
	return true
}

// extraName is a name in the tree: text, or what JSON makes a name of.
func extraName(v *document.Value) (string, bool) {
	switch v.Kind() {
	case document.Text:
		return v.Text(), true
	case document.List, document.Dict:
		return "", false
	default:
		return string(v.Raw()), true
	}
}

// extraValue makes a whole number of what reads like one.
func extraValue(v *document.Value) (json.RawMessage, bool) {
	switch k := v.Kind(); k {
	case document.Text, document.Bool, document.Int, document.Float:
		if number, err := document.ToInt(v); err == nil {
			return number.Raw(), true
		}
		return v.Raw(), k != document.Float // beyond what a double holds, as an infinity
	}
	return v.Raw(), true
}

// branch is a part of the tree, its names in the order in which they came.
type branch struct {
	leaf     json.RawMessage // nil for one with children
	names    []string
	children map[string]*branch
}

// child returns the branch under a name.
func (b *branch) child(name string) *branch {
	if child, known := b.children[name]; known {
		return child
	}
	if b.children == nil {
		b.children = make(map[string]*branch)
	}
	child := &branch{}
	b.children[name], b.names = child, append(b.names, name)
	return child
}

// MarshalJSON implements json.Marshaler, three levels deep.
func (b *branch) MarshalJSON() ([]byte, error) {
	if b.leaf != nil {
		return b.leaf, nil
	}
	out := document.NewCollection(document.Dict)
	for _, name := range b.names {
		quoted, err := json.Marshal(name) // with escapes for HTML
		if err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
		value, err := b.children[name].MarshalJSON()
		if err != nil {
			return nil, err
		}
		out.AddQuoted(quoted, value)
	}
	return out.JSON(), nil
}
