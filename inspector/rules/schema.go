package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/inspector/document"
)

// schema is what a list of conditions or actions must look like: a JSON schema,
// of which only the words are needed that rules have.
type schema struct {
	least    int // items
	required []string
	// properties that are checked if they are there, in order.
	properties []property
}

// property is one checked property.
type property struct {
	name string
	kind document.Kind // if there is no list
	list []string      // of the texts that are allowed
}

// namesOf lists the names in a registry.
func namesOf[T any](registry []T, name func(T) string) (names []string) {
	for _, one := range registry {
		names = append(names, name(one))
	}
	return names
}

// validate checks a list and returns its items. Its text is the first line of
// what jsonschema says: of several faults the one that lies least deep, then the
// first.
func (s schema) validate(what string, list *document.Value, most int) ([]*document.Value, error) {
	failed := func(format string, args ...any) error {
		return invalidf("Validation failed for %s: %s", what, fmt.Sprintf(format, args...))
	}
	if list.Kind() != document.List {
		return nil, failed("%s", s.wrongType(list, "array"))
	}
	inside, err := list.Split()
	if err != nil {
		return nil, err
	}
	switch n := len(inside.Values); {
	case n < s.least:
		return nil, failed("[] is too short")
	case n > most:
		return nil, failed("%d items are too many, allowed are %d", n, most)
	}
	deeper := ""
	for _, item := range inside.Values {
		fault, inside, err := s.item(item)
		switch {
		case err != nil:
			return nil, err
		case fault != "" && !inside:
			return nil, failed("%s", fault)
		case deeper == "":
			deeper = fault
		}
	}
	if deeper != "" {
		return nil, failed("%s", deeper)
	}
	return inside.Values, nil
}

// item finds the first fault of an item, "" if there is none; inside tells that
// it is one of a property.
func (s schema) item(item *document.Value) (fault string, inside bool, err error) {
	if item.Kind() != document.Dict {
		return s.wrongType(item, "object"), false, nil
	}
	for _, name := range s.required {
		if v, err := item.Member(name); err != nil || v == nil {
			return document.ReprText(name) + " is a required property", false, err
		}
	}
	for _, p := range s.properties {
		v, err := item.Member(p.name)
		if err != nil {
			return "", false, err
		}
		if v == nil {
			continue
		}
		switch {
		case p.list == nil && v.Kind() != p.kind:
			return s.wrongType(v, map[document.Kind]string{document.Text: "string", document.Bool: "boolean"}[p.kind]), true, nil
		case p.list != nil && (v.Kind() != document.Text || !slices.Contains(p.list, v.Text())):
			quoted := make([]string, len(p.list))
			for i, name := range p.list {
				quoted[i] = document.ReprText(name)
			}
			return fmt.Sprintf("%s is not one of [%s]", shown(v), strings.Join(quoted, ", ")), true, nil
		}
	}
	return "", false, nil
}

func (schema) wrongType(v *document.Value, want string) string {
	return fmt.Sprintf("%s is not of type '%s'", shown(v), want)
}

// shown is how messages repeat a value.
func shown(v *document.Value) string {
	text, err := document.Repr(v)
	if err != nil {
		return v.Kind().String()
	}
	return document.Clip(text)
}
