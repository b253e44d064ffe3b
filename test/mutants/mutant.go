package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Mutant is one deliberate fault and the test that must notice it.
type Mutant struct {
	Name      string   // short and unique, words joined by hyphens
	Promise   string   // what the fault breaks: "2" for promise 2 of docs/design.md#promises, or a word
	File      string   // slash-separated, relative to the root of the module
	Old       string   // text that stands exactly once in File
	New       string   // what it becomes; the result must compile
	Package   string   // package of the test, as in "./fsm"
	Run       string   // regular expression of the test's name, as for go test -run
	Args      []string // more arguments of go test, such as "-race" or "-short"
	Assertion string   // text in the output of the failing test: the assertion that notices
}

// mutated returns the content of the mutant's file with the fault in it. It
// fails when the table no longer fits the source.
func (m Mutant) mutated(root string) ([]byte, error) {
	source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.File)))
	if err != nil {
		return nil, fmt.Errorf("read the file to mutate: %w", err)
	}
	if n := strings.Count(string(source), m.Old); n != 1 || m.Old == "" {
		return nil, fmt.Errorf("the old text stands %d times in %s, not once: %q", n, m.File, m.Old)
	}
	if m.Old == m.New {
		return nil, fmt.Errorf("the new text is the old text: %q", m.Old)
	}
	return []byte(strings.Replace(string(source), m.Old, onAsManyLines(string(source), m.Old, m.New), 1)), nil
}

// baseline names the test run that the mutant shares with others: the one
// that must pass before any of them is judged.
func (m Mutant) baseline() string {
	return strings.Join(append([]string{m.Package, m.Run}, m.Args...), " ")
}
