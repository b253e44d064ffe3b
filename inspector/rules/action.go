package rules

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// actionKind is one kind of action.
type actionKind struct {
	name     string
	required []string
	optional []string
	text     []string // parameters that must be text
	format   bool     // value is formatted
	nullable bool     // a value is required, which may be null
	apply    func(ctx context.Context, r *run, p params) error
}

// actionKinds is the registry, in the order in which messages list it. A new
// action is one row here.
var actionKinds = [...]actionKind{
	{name: "add-trait", required: []string{"name"}, text: []string{"name"}, apply: trait(inspector.Ironic.AddTrait)},
	{name: "example", apply: example},
	{name: "extend-attribute", required: []string{"path", "value"}, optional: []string{"unique"}, text: []string{"path"},
		format: true, apply: extendAttribute},
	{name: "fail", required: []string{"message"}, apply: fail},
	{name: "remove-trait", required: []string{"name"}, text: []string{"name"}, apply: trait(inspector.Ironic.RemoveTrait)},
	{name: "set-attribute", required: []string{"path"}, optional: []string{"value", "reset_interfaces"},
		text: []string{"path"}, format: true, nullable: true, apply: setAttribute},
	{name: "set-capability", required: []string{"name"}, optional: []string{"value"}, text: []string{"name"}, format: true,
		apply: setCapability},
}

// action is one action of a rule.
type action struct {
	kind   actionKind
	params params
}

func compileActions(list *document.Value) ([]action, error) {
	names := namesOf(actionKinds[:], func(k actionKind) string { return k.name })
	shape := schema{least: 1, required: []string{"action"}, properties: []property{{name: "action", list: names}}}
	items, err := shape.validate("actions", list, maxActions)
	if err != nil {
		return nil, err
	}
	var actions []action
	for _, item := range items {
		name, err := item.Member("action")
		if err != nil {
			return nil, err
		}
		a, err := compileAction(item, name.Text())
		if err != nil {
			return nil, invalidf("Invalid parameters for action %s: %w", name.Text(), err)
		}
		actions = append(actions, a)
	}
	return actions, nil
}

func compileAction(item *document.Value, name string) (a action, err error) {
	at := slices.IndexFunc(actionKinds[:], func(k actionKind) bool { return k.name == name })
	a.kind = actionKinds[at] // the shape lists the names
	if a.params, err = paramsOf(item, "action"); err != nil {
		return a, err
	}
	if a.kind.nullable && a.params["value"] == nil {
		return a, invalidf("missing required parameter(s): value")
	}
	if err := a.params.check(a.kind.required, a.kind.optional, false); err != nil {
		return a, err
	}
	for _, name := range a.kind.text {
		if v := a.params[name]; v.Kind() != document.Text {
			return a, invalidf("invalid %s: expected text, got %v", name, v.Kind())
		}
	}
	if v := a.params["value"]; a.kind.format && v != nil { // each text in it must be a format
		_, err = formatAll(v, func(text string) (string, error) {
			_, err := parseFormat(text)
			return text, err
		})
	}
	return a, err
}

// do carries out one action.
func (a action) do(ctx context.Context, r *run) error {
	p := a.params
	if v := p["value"]; a.kind.format && v != nil {
		data := r.document()
		formatted, err := formatAll(v, func(text string) (string, error) {
			f, err := parseFormat(text)
			if err != nil {
				return "", err
			}
			return f.fillIn(data)
		})
		if err != nil {
			return err
		}
		p = maps.Clone(p)
		p["value"] = formatted
	}
	return a.kind.apply(ctx, r, p)
}

// example does nothing, as in the original, where it shows how to write one.
func example(context.Context, *run, params) error { return nil }

// fail ends the introspection. Its message is not formatted.
func fail(_ context.Context, _ *run, p params) error {
	text, err := document.Str(p["message"])
	if err != nil {
		return err
	}
	return document.Failed("%s", text)
}

// trait makes an action of a call about a trait of the node.
func trait(call func(i inspector.Ironic, ctx context.Context, node, trait string) error) func(context.Context, *run,
	params) error {
	return func(ctx context.Context, r *run, p params) error {
		return call(r.task.Ironic, ctx, r.task.Node().UUID, p["name"].Text())
	}
}

// patch changes the node at a path, whose leading slash is optional.
func (r *run) patch(ctx context.Context, op, path string, v *document.Value,
	apply func(context.Context, ...ironic.Patch) error) error {
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	r.whole = nil // what was read of the node is old now
	return apply(ctx, ironic.Patch{Op: op, Path: path, Value: v.Raw()})
}

func setAttribute(ctx context.Context, r *run, p params) error {
	path, apply := p["path"].Text(), r.task.PatchNode
	if strings.Trim(path, "/") == "driver" {
		if given := p["reset_interfaces"]; given == nil || !given.Empty() {
			apply = r.task.PatchDriver
		}
	}
	return r.patch(ctx, "add", path, p["value"], apply)
}

// setCapability sets one capability, or removes it if there is no value.
func setCapability(ctx context.Context, r *run, p params) error {
	capabilities, err := parseCapabilities(r.task.Node().Properties["capabilities"])
	if err != nil {
		return err
	}
	name := p["name"].Text()
	at := slices.IndexFunc(capabilities, func(c [2]string) bool { return c[0] == name })
	switch v := p["value"]; {
	case v == nil || v.Kind() == document.None:
		capabilities = slices.DeleteFunc(capabilities, func(c [2]string) bool { return c[0] == name })
	default:
		text, err := document.Str(v)
		if err != nil {
			return err
		}
		if at < 0 {
			capabilities = append(capabilities, [2]string{name, text})
		} else {
			capabilities[at][1] = text
		}
	}
	pairs := make([]string, len(capabilities))
	for i, c := range capabilities {
		pairs[i] = c[0] + ":" + c[1]
	}
	return r.patch(ctx, "add", "/properties/capabilities", document.OfText(strings.Join(pairs, ",")), r.task.PatchNode)
}

// parseCapabilities splits "a:1,b:2"; of a name that occurs twice the last value
// counts.
func parseCapabilities(written any) ([][2]string, error) {
	text, ok := written.(string)
	switch {
	case text == "" && (ok || written == nil):
		return nil, nil
	case !ok:
		return nil, document.Failed("The capabilities of the node are no text, but %.100v", written)
	}
	var list [][2]string
	for i, pair := range strings.Split(text, ",") {
		name, value, found := strings.Cut(pair, ":")
		if !found {
			return nil, document.Raise("ValueError", "dictionary update sequence element #%d has length 1; 2 is required", i)
		}
		at := slices.IndexFunc(list, func(c [2]string) bool { return c[0] == name })
		if at >= 0 {
			list[at][1] = value
			continue
		}
		list = append(list, [2]string{name, value})
	}
	return list, nil
}

// extendAttribute appends to a list, which is made if there is none.
func extendAttribute(ctx context.Context, r *run, p params) error {
	path := p["path"].Text()
	old, err := r.attribute(ctx, strings.Trim(path, "/"))
	if err != nil {
		return err
	}
	op, longer := "replace", document.NewCollection(document.List)
	var there []*document.Value
	switch {
	case old == nil:
		op = "add"
	case old.Kind() != document.List:
		return document.Raise("AttributeError", "'%v' object has no attribute 'append'", old.Kind())
	default:
		inside, err := old.Split()
		if err != nil {
			return err
		}
		there = inside.Values
	}
	if !p["unique"].Empty() {
		if known, err := document.Contains(there, p["value"]); err != nil || known {
			return err
		}
	}
	for _, v := range append(slices.Clip(there), p["value"]) {
		if err := addTo(longer, "", v); err != nil {
			return err
		}
	}
	return r.patch(ctx, op, path, document.Checked(longer.JSON()), r.task.PatchNode)
}

// attribute returns what the node has at a path without slashes at its ends,
// which may go one level deep; nil if there is nothing.
func (r *run) attribute(ctx context.Context, path string) (*document.Value, error) {
	node, err := r.node(ctx)
	if err != nil {
		return nil, err
	}
	name, key, nested := strings.Cut(path, "/")
	found, err := node.Member(name)
	if err != nil || found == nil || !nested {
		return found, err
	}
	if found.Kind() == document.Dict {
		return found.Member(key)
	}
	return nil, noKeys(found)
}

// noKeys is why a value that is no dict has nothing under a text.
func noKeys(v *document.Value) error {
	switch k := v.Kind(); k {
	case document.List:
		return document.Raise("TypeError", "list indices must be integers or slices, not str")
	case document.Text:
		return document.Raise("TypeError", "string indices must be integers, not 'str'")
	default:
		return document.Raise("TypeError", "'%v' object is not subscriptable", k)
	}
}
