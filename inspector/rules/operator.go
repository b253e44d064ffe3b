package rules

import (
	"fmt"
	"strings"
)

// operator is one kind of condition.
type operator struct {
	name    string
	lax     bool // it takes parameters that it does not know
	missing bool // it is asked about a field that is not there, as null, and takes no value
	// prepare makes the check of a condition with a value. An error is what the
	// contract puts behind "Invalid parameters for operator x: ".
	prepare func(want *value, room *int) (check, error) // room is for patterns, see compile
}

// check decides whether a condition holds for one value of its field.
type check func(found *value) (bool, error)

// operators is the registry, in the order in which messages list it. A new
// operator is one row here.
var operators = [...]operator{
	{name: "contains", lax: true, prepare: containing},
	{name: "eq", prepare: same(true)},
	{name: "ge", prepare: ordered(">=", func(order int) bool { return order >= 0 })},
	{name: "gt", prepare: ordered(">", func(order int) bool { return order > 0 })},
	{name: "in-net", prepare: insideNet},
	{name: "is-empty", missing: true, prepare: empty},
	{name: "le", prepare: ordered("<=", func(order int) bool { return order <= 0 })},
	{name: "lt", prepare: ordered("<", func(order int) bool { return order < 0 })},
	{name: "matches", lax: true, prepare: matching},
	{name: "ne", prepare: same(false)},
}

// invalidf says why a rule cannot be taken, in the words of the original where it
// has some.
func invalidf(format string, args ...any) error { return fmt.Errorf(format, args...) }

// same makes an operator that holds if the field equals the value, or if not.
func same(wanted bool) func(*value, *int) (check, error) {
	return func(want *value, _ *int) (check, error) {
		if err := readable(want); err != nil {
			return nil, err
		}
		return func(found *value) (bool, error) {
			found, err := coerce(found, want)
			if err != nil {
				return false, err
			}
			is, err := equal(found, want)
			return is == wanted, err
		}, nil
	}
}

// ordered makes an operator that compares the field with the value. What is no
// number (NaN) is neither more nor less than any.
func ordered(sign string, holds func(order int) bool) func(*value, *int) (check, error) {
	return func(want *value, _ *int) (check, error) {
		if err := readable(want); err != nil {
			return nil, err
		}
		return func(found *value) (bool, error) {
			found, err := coerce(found, want)
			if err != nil {
				return false, err
			}
			order, comparable, err := compare(found, want, sign)
			return err == nil && comparable && holds(order), err
		}, nil
	}
}

// readable checks that a number can be read.
func readable(want *value) error {
	if !isNumeric(want) {
		return nil
	}
	_, err := want.number()
	return err
}

// coerce makes a number of a field that is compared with one.
func coerce(found, want *value) (*value, error) {
	switch want.kind() {
	case kindFloat:
		return toFloat(found)
	case kindInt, kindBool:
		return toInt(found)
	default:
		return found, nil
	}
}

// empty holds for null, "", [] and {}.
func empty(*value, *int) (check, error) {
	return func(found *value) (bool, error) {
		switch found.kind() {
		case kindBool, kindInt, kindFloat:
			return false, nil
		}
		filled, err := found.isTrue()
		return !filled && err == nil, err
	}, nil
}

// matching holds when the pattern matches the whole text from its start. As in
// the original a $ is put behind the pattern, which in "a|b" concerns the b.
func matching(want *value, room *int) (check, error) {
	source, err := patternText(want)
	if err != nil {
		return nil, err
	}
	around := `\A(?:%s` + endOfText + ")"
	if strings.HasSuffix(source, "$") {
		around = `\A(?:%s)`
	}
	return searching(source, around, room)
}

// containing holds when the pattern matches anywhere.
func containing(want *value, room *int) (check, error) {
	source, err := patternText(want)
	if err != nil {
		return nil, err
	}
	return searching(source, "%s", room)
}

func patternText(want *value) (string, error) {
	if want.kind() != kindText {
		return "", invalidf("invalid regular expression: expected text, got %v", want.kind())
	}
	return want.text(), nil
}

// searching searches in the field as text.
func searching(source, around string, room *int) (check, error) {
	p, err := compile(source, around, room)
	if err != nil {
		return nil, invalidf("invalid regular expression: %w", err)
	}
	return func(found *value) (bool, error) {
		text, err := str(found)
		if err != nil {
			return false, err
		}
		return p.matches(text)
	}, nil
}
