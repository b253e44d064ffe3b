package rules

import (
	"fmt"
	"strings"

	"github.com/trivet-ha/trivet/inspector/document"
)

// operator is one kind of condition.
type operator struct {
	name    string
	lax     bool // it takes parameters that it does not know
	missing bool // it is asked about a field that is not there, as null, and takes no value
	// prepare makes the check of a condition with a value. An error is what the
	// contract puts behind "Invalid parameters for operator x: ".
	prepare func(want *document.Value, room *int) (check, error) // room is for patterns, see compile
}

// check decides whether a condition holds for one value of its field.
type check func(found *document.Value) (bool, error)

// operators is the registry, in the order in which messages list it. A new
// operator is one row here.
var operators = [...]operator{
	{name: "contains", lax: true, prepare: searching(false)},
	{name: "eq", prepare: same(true)},
	{name: "ge", prepare: ordered(">=", func(order int) bool { return order >= 0 })},
	{name: "gt", prepare: ordered(">", func(order int) bool { return order > 0 })},
	{name: "in-net", prepare: insideNet},
	{name: "is-empty", missing: true, prepare: empty},
	{name: "le", prepare: ordered("<=", func(order int) bool { return order <= 0 })},
	{name: "lt", prepare: ordered("<", func(order int) bool { return order < 0 })},
	{name: "matches", lax: true, prepare: searching(true)},
	{name: "ne", prepare: same(false)},
}

// invalidf says why a rule cannot be taken, in the words of the original where it
// has some.
func invalidf(format string, args ...any) error { return fmt.Errorf(format, args...) }

// same makes an operator that holds if the field equals the value, or if not.
func same(wanted bool) func(*document.Value, *int) (check, error) {
	return func(want *document.Value, _ *int) (check, error) {
		return func(found *document.Value) (bool, error) {
			found, err := coerce(found, want)
			if err != nil {
				return false, err
			}
			is, err := document.Equal(found, want)
			return is == wanted, err
		}, nil
	}
}

// ordered makes an operator that compares the field with the value. What is no
// number (NaN) is neither more nor less than any.
func ordered(sign string, holds func(order int) bool) func(*document.Value, *int) (check, error) {
	return func(want *document.Value, _ *int) (check, error) {
		return func(found *document.Value) (bool, error) {
			found, err := coerce(found, want)
			if err != nil {
				return false, err
			}
			order, comparable, err := document.Compare(found, want, sign)
			return err == nil && comparable && holds(order), err
		}, nil
	}
}

// coerce makes a number of a field that is compared with one.
func coerce(found, want *document.Value) (*document.Value, error) {
	switch want.Kind() {
	case document.Float:
		return document.ToFloat(found)
	case document.Int, document.Bool:
		return document.ToInt(found)
	default:
		return found, nil
	}
}

// empty holds for null, "", [] and {}.
func empty(*document.Value, *int) (check, error) {
	return func(found *document.Value) (bool, error) {
		switch found.Kind() {
		case document.Bool, document.Int, document.Float:
			return false, nil
		}
		return found.Empty(), nil
	}, nil
}

// searching makes an operator that holds when the pattern matches anywhere in the field as text, or if
// whole, the whole text from its start. As in the original a $ is put behind the pattern then, which in
// "a|b" concerns the b.
func searching(whole bool) func(*document.Value, *int) (check, error) {
	return func(want *document.Value, room *int) (check, error) {
		around := "%s"
		switch {
		case want.Kind() != document.Text:
			return nil, invalidf("invalid regular expression: expected text, got %v", want.Kind())
		case whole && strings.HasSuffix(want.Text(), "$"):
			around = `\A(?:%s)`
		case whole:
			around = `\A(?:%s` + endOfText + ")"
		}
		p, err := compile(want.Text(), around, room)
		if err != nil {
			return nil, invalidf("invalid regular expression: %w", err)
		}
		return func(found *document.Value) (bool, error) {
			text, err := document.Str(found)
			if err != nil {
				return false, err
			}
			return p.matches(text)
		}, nil
	}
}
