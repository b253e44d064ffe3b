package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestTableFitsTheSource fails as soon as a change moves the text of a row,
// long before the mutants themselves are run.
func TestTableFitsTheSource(t *testing.T) {
	names := make(map[string]bool)
	for _, m := range theTable(t) {
		if names[m.Name] {
			t.Errorf("%s: the name is used twice", m.Name)
		}
		names[m.Name] = true
		if m.Name == "" || m.Promise == "" || m.Package == "" || m.Run == "" || m.Assertion == "" {
			t.Errorf("%s: a field is empty: %+v", m.Name, m)
		}
		// A part of a name finds other tests once the one that was meant is called otherwise.
		if !strings.HasPrefix(m.Run, "^") {
			t.Errorf("%s: %q does not begin with ^: say which test it is", m.Name, m.Run)
		}
		if m.Assertion == "FAIL" {
			t.Errorf("%s: each test that fails says FAIL: say which assertion notices", m.Name)
		}
		if _, err := m.mutated("../.."); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}

func theTable(t *testing.T) []Mutant {
	t.Helper()
	mutants, err := table()
	if err != nil {
		t.Fatal(err)
	}
	return mutants
}

// caughtRow is a mutant of the fixture that its test notices; cases vary it.
func caughtRow() Mutant {
	return Mutant{
		Name: "token-not-compared", Promise: "3", File: "gate.go",
		Old: "return token >= floor", New: "return true",
		Package: ".", Run: "^TestOldTokenStaysOut$", Assertion: "an older token opened the gate",
	}
}

func TestUsage(t *testing.T) {
	cases := []struct {
		args []string
		code int
		told string
	}{
		{[]string{"-list"}, 0, "token-not-compared"},
		{[]string{"-list", "-run", "^token"}, 0, "^TestOldTokenStaysOut$"},
		{[]string{"-list", "-part", "0/2"}, 0, "token-not-compared"},
		{[]string{"-list", "-part", "1/2"}, 2, "no mutant matches"},
		{[]string{"-list", "-part", "2/2"}, 2, "write K/N"},
		{[]string{"-list", "-part", "1/2x"}, 2, "write K/N"},
		{[]string{"-run", "^gate"}, 2, "no mutant matches"},
		{[]string{"-run", "("}, 2, "error: -run: error parsing regexp"},
		{[]string{"-sample=1", "-of=gone"}, 2, "error: generate mutants of gone"},
		{[]string{"-h"}, 0, "judge only the mutants"},
		{[]string{"token"}, 2, "no arguments"},
		{[]string{"-fast"}, 2, "flag provided but not defined"},
	}
	for _, c := range cases {
		var out, errs bytes.Buffer
		// not hermetic: the calls are refused or only list rows; no row is judged.
		code := run(t.Context(), c.args, "testdata/gate", []Mutant{caughtRow()}, &out, &errs)
		if code != c.code || !strings.Contains(out.String()+errs.String(), c.told) {
			t.Errorf("%v: exit %d, want %d with %q in:\n%s%s", c.args, code, c.code, c.told, &out, &errs)
		}
	}
}

func TestOutputKeepsTheNewestBytes(t *testing.T) {
	var l lastBytes
	for range 3 {
		l.Write(bytes.Repeat([]byte("."), maxOutput))
	}
	l.Write([]byte("the end"))
	if len(l.kept) > 2*maxOutput || !bytes.HasSuffix(l.kept, []byte("the end")) {
		t.Errorf("%d bytes kept, bound %d", len(l.kept), 2*maxOutput)
	}
}
