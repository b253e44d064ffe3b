package simironic

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// operation is one step of a JSON patch (RFC 6902). A value that is absent and
// one that is null are the same here.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patch returns doc with all operations applied, or an error of Ironic's.
// fixed are the top-level keys that clients may not change; a test of them is
// fine.
func (d document) patch(ops []operation, fixed []string) (document, error) {
	changed := make(map[string]any)
	for _, op := range ops {
		top, _, _ := strings.Cut(strings.TrimPrefix(op.Path, "/"), "/")
		if op.Op != "test" && slices.Contains(fixed, top) {
			return d, refuse(http.StatusBadRequest, "'/%s' is an internal attribute and can not be updated", top)
		}
		old, known := d.get(top)
		if !known {
			return d, refuse(http.StatusBadRequest, "Adding a new attribute (/%s) to the root of the resource is not allowed", top)
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
	old, there := m[key]
	if !there && op.Op != "add" {
		return fmt.Errorf("%w: %s", errNotThere, op.Path)
	}
	switch op.Op {
	case "add", "replace":
		m[key] = op.Value
	case "remove":
		delete(m, key)
	case "test":
		return test(old, op)
	default:
		return unknownOperation(op)
	}
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
	case "replace":
		list[i] = op.Value
		return list, nil
	case "remove":
		return slices.Delete(list, i, i+1), nil
	case "test":
		return list, test(list[i], op)
	default:
		return nil, unknownOperation(op)
	}
}

func index(step string, highest int) (int, error) {
	i, err := strconv.Atoi(step)
	if err != nil || i < 0 || i > highest {
		return 0, fmt.Errorf("%w: %s is no index of the list", errNotThere, step)
	}
	return i, nil
}

func test(have any, op operation) error {
	if !reflect.DeepEqual(have, op.Value) {
		return fmt.Errorf("%s is not equal to tested value %s", marshal(have), marshal(op.Value))
	}
	return nil
}

func unknownOperation(op operation) error {
	return fmt.Errorf("unknown operation %q, it is one of add, replace, remove, test", op.Op)
}
