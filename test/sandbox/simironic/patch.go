package simironic

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// operation is one step of a JSON patch (RFC 6902): add, replace or remove. A
// value that is absent and one that is null are the same here.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patch returns doc with all operations applied, or an error of Ironic's.
// fixed are the top-level keys that clients may not change. As in Ironic a patch
// holds no "test": it cannot be made conditional.
func (d document) patch(ops []operation, fixed []string) (document, error) {
	changed := make(map[string]any)
	for _, op := range ops {
		top, _, _ := strings.Cut(strings.TrimPrefix(op.Path, "/"), "/")
		if op.Op != "add" && op.Op != "replace" && op.Op != "remove" {
			return d, refuse(http.StatusBadRequest, "Schema error for patch: '%s' is not one of ['add', 'replace', 'remove']",
				op.Op)
		}
		if slices.Contains(fixed, top) {
			return d, refuse(http.StatusBadRequest, "'/%s' is an internal attribute and can not be updated", top)
		}
		old, known := d.get(top)
		if !known {
			return d, refuse(http.StatusBadRequest, "Adding a new attribute (/%s) to the root of the resource is not allowed",
				top)
		}
		if _, copied := changed[top]; !copied {
			changed[top] = clone(old)
		}
		if err := apply(changed, op); err != nil {
			return d, refuse(http.StatusBadRequest, "Couldn't apply patch '%s'. Reason: %v", marshal(ops), err)
		}
		if _, there := changed[top]; !there {
			changed[top] = emptied(old)
		}
	}
	return d.with(changed), nil
}

// emptied is what an attribute that is removed goes back to.
func emptied(old any) any {
	if _, isMap := old.(map[string]any); isMap {
		return map[string]any{}
	}
	return nil
}

// clone copies a JSON value.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[key] = clone(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = clone(value)
		}
		return out
	default:
		return v
	}
}

var errNotThere = errors.New("the path does not exist")

// apply makes one operation in place.
func apply(doc map[string]any, op operation) error {
	if !strings.HasPrefix(op.Path, "/") || op.Path == "/" {
		return fmt.Errorf("path %q does not begin with a slash and a name", op.Path)
	}
	steps := strings.Split(op.Path[1:], "/")
	for i, step := range steps {
		steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
	}
	_, err := walk(doc, steps, op)
	return err
}

// walk applies op below v and returns v, or what takes its place: a list that
// grew or shrank.
func walk(v any, steps []string, op operation) (any, error) {
	last := len(steps) == 1
	switch v := v.(type) {
	case map[string]any:
		if last {
			return v, applyToMap(v, steps[0], op)
		}
		inner, there := v[steps[0]]
		if !there {
			return nil, errNotThere
		}
		inner, err := walk(inner, steps[1:], op)
		if err == nil {
			v[steps[0]] = inner
		}
		return v, err
	case []any:
		if last {
			return applyToList(v, steps[0], op)
		}
		i, err := index(steps[0], len(v)-1)
		if err != nil {
			return nil, err
		}
		if v[i], err = walk(v[i], steps[1:], op); err != nil {
			return nil, err
		}
		return v, nil
	default:
		return nil, errNotThere
	}
}

func applyToMap(m map[string]any, key string, op operation) error {
	if _, there := m[key]; !there && op.Op != "add" {
		return fmt.Errorf("%w: %s", errNotThere, op.Path)
	}
	if op.Op == "remove" {
		delete(m, key)
		return nil
	}
	m[key] = op.Value
	return nil
}

func applyToList(list []any, step string, op operation) (any, error) {
	highest := len(list) - 1
	if op.Op == "add" {
		highest++
	}
	if step == "-" && op.Op == "add" {
		return append(list, op.Value), nil
	}
	i, err := index(step, highest)
	if err != nil {
		return nil, err
	}
	switch op.Op {
	case "add":
		return slices.Insert(list, i, op.Value), nil
	case "remove":
		return slices.Delete(list, i, i+1), nil
	default:
		list[i] = op.Value
		return list, nil
	}
}

func index(step string, highest int) (int, error) {
	i, err := strconv.Atoi(step)
	if err != nil || i < 0 || i > highest {
		return 0, fmt.Errorf("%w: %s is no index of the list", errNotThere, step)
	}
	return i, nil
}
