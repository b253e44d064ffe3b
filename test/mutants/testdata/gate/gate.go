// Package gate is broken on purpose by the test of the mutants command.
package gate

// MayOpen reports whether the holder of token may open a gate that floor guards.
func MayOpen(token, floor uint64) bool {
	return token >= floor
}

// Width is looked at by no test.
func Width() int { return 3 }
