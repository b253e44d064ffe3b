package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed rows/*.diff
var rowFiles embed.FS

// table returns every mutant. A row belongs to the promise it breaks (docs/design.md#promises) and
// names the assertion that must notice; CONTRIBUTING.md says how one is added. Tests of
// this package check that every row fits the source, compiles, and names a test: a row
// is renewed in the change that moves its text.
func table() ([]Mutant, error) { return readTable(rowFiles) }

// readTable reads the files of rows in the order of their names.
func readTable(files fs.FS) (all []Mutant, err error) {
	names, err := fs.Glob(files, "rows/*.diff")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		rows, err := parseRows(path.Join("test/mutants", name), text)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	return all, nil
}

// parseRows reads rows: lines "key: value", the mutant's name first, then the lines of
// the file as a diff has them, with " ", "-" or "+" before each. A blank line ends a
// row, and a line that begins with "#" is for readers. An error names the line.
func parseRows(file string, text []byte) (rows []Mutant, err error) {
	open := false // a row has begun and no blank line ended it
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line := strings.TrimSuffix(string(line), "\n")
		switch {
		case line == "":
			open = false
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "mutant: "):
			rows = append(rows, Mutant{Name: strings.TrimPrefix(line, "mutant: ")})
			open = true
		case !open:
			return nil, fmt.Errorf("%s:%d: a row begins with \"mutant: NAME\", not with %q", file, number, line)
		default:
			if err := rows[len(rows)-1].read(line); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, number, err)
			}
		}
	}
	return rows, nil
}

// read adds a line of the mutant's row.
func (m *Mutant) read(line string) error {
	switch sign, rest := line[0], line[1:]+"\n"; sign {
	case ' ':
		m.Old, m.New = m.Old+rest, m.New+rest
		return nil
	case '-':
		m.Old += rest
		return nil
	case '+':
		m.New += rest
		return nil
	}
	key, value, _ := strings.Cut(line, ": ")
	switch key {
	case "promise":
		m.Promise = value
	case "file":
		m.File = value
	case "test":
		pkg, run, found := strings.Cut(value, " ")
		if !found {
			return errors.New("a test is a package and a regular expression")
		}
		m.Package, m.Run = pkg, run
	case "args":
		m.Args = strings.Fields(value)
	case "says":
		m.Assertion = value
	default:
		return fmt.Errorf("%q is no line of a row: write promise, file, test, args, says, or a line of a diff", line)
	}
	return nil
}
