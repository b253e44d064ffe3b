// Package door is what samples of generated mutants are tested on.
package door

import "errors"

// Side is an enumeration: the size of its values means nothing.
type Side uint8

// The sides.
const (
	Left  Side = 1
	Right Side = 2
)

const (
	width  = 1
	spare  = 4
	origin = 0
	name   = "1"
)

// Enter refuses a token below the floor.
func Enter(token, floor int) error {
	if token < floor {
		return errors.New("too old")
	}
	return nil
}

// Known reports whether a door has this name.
func Known(s string) (known bool) {
	defer func() { known = known && s != "" }()
	switch {
	case s == name:
		return true
	case len(s) > spare:
		return false
	}
	return [width]bool{}[0]
}
