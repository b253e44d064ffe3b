package main

import (
	"strings"
	"testing"
)

// TestTableCompiles type-checks every mutant of the table: one that does not compile
// proves nothing, and is found when it is judged, which few changes do.
func TestTableCompiles(t *testing.T) {
	c, err := newCompiler("../..", theTable(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range theTable(t) {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel() // one at a time on each processor
			if err := c.check(m); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCompilerErrorsNameTheMutant(t *testing.T) {
	cases := []struct{ name, old, new, told string }{
		{"compiles", "return token >= floor", "return true", ""},
		{"missing value", "return token >= floor", "return",
			"gate.go:6:2: not enough return values\n\thave ()\n\twant (bool)"},
		{"unused variable", "return token >= floor", "strict := true; return token >= floor",
			"gate.go:6:2: declared and not used: strict"},
		{"unused import", "package gate", `package gate; import "os"`, `gate.go:2:22: "os" imported and not used`},
		{"unknown name", "token >= floor", "token >= ceiling", "gate.go:6:18: undefined: ceiling"},
		{"syntax", "return token >= floor", "return token >=", "expected operand"},
		{"added import", "package gate", `package gate; import _ "errors"`, ""},
		{"unknown import", "package gate", `package gate; import _ "gate.invalid/door"`,
			"gate.go:2:24: could not import gate.invalid/door"},
		{"no fit", "return token > floor", "return true", "stands 0 times"},
	}
	c, err := newCompiler("testdata/gate", []Mutant{caughtRow()})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range cases {
		m := caughtRow()
		m.Name, m.Old, m.New = test.name, test.old, test.new
		err := c.check(m)
		switch {
		case test.told == "":
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
		case err == nil || !strings.HasPrefix(err.Error(), test.name+": ") || !strings.Contains(err.Error(), test.told):
			t.Errorf("%v, want %q of %s", err, test.told, test.name)
		}
	}
	m := caughtRow()
	m.File = "gate_test.go"
	if err := c.check(m); err == nil || !strings.Contains(err.Error(), "in no package that is built here") {
		t.Errorf("%v", err)
	}
}
