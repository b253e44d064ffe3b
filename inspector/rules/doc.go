// Package rules carries out introspection rules (docs/contract.md#rules): it checks them
// when they are created, decides after a callback's processing which of them
// apply, and has their actions done.
//
// The contract is that of a Python program. Its rules were written by people who
// tried until they worked, so conversions, comparisons, and what published rules have
// of patterns, paths and formats follow Python's, down to the texts of its exceptions;
// testdata holds what the original answered. The rest is refused when a rule is made.
// What a rule could use to hold up or to exhaust a worker is bounded, each bound where
// it is used.
package rules
