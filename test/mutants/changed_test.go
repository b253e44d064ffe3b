package main

import (
	"slices"
	"strings"
	"testing"
)

func TestAffected(t *testing.T) {
	rows := []Mutant{
		{Name: "own-file", File: "fsm/state.go", Package: "./test/simtest"},
		{Name: "own-package", File: "inspector/sync.go", Package: "./inspector"},
		{Name: "token-not-compared", File: "raftstore/leader/leader.go", Package: "./raftstore/leader"},
	}
	cases := []struct {
		name    string
		changed []string
		want    []string
	}{
		{"nothing", nil, nil},
		{"a page", []string{"docs/design.md"}, nil},
		{"the file", []string{"fsm/state.go"}, []string{"own-file"}},
		{"another file of the file's package", []string{"fsm/lead.go"}, nil},
		{"a file of the test's package", []string{"inspector/other_test.go"}, []string{"own-package"}},
		{"its test data", []string{"inspector/testdata/old/rules.json"}, []string{"own-package"}},
		{"a package below it", []string{"inspector/ramdisklogs/logs.go"}, nil},
		{"several", []string{"test/simtest/world.go", "raftstore/leader/lead.go"},
			[]string{"own-file", "token-not-compared"}},
	}
	for _, c := range cases {
		if got := names(affected(rows, rows, c.changed)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestAffectedByTheirRow: a row that is new or was written anew is judged, and no other
// of its file.
func TestAffectedByTheirRow(t *testing.T) {
	before := []Mutant{caughtRow()}
	renewed, added := caughtRow(), caughtRow()
	renewed.Assertion = "the gate stood open"
	added.Name = "added"
	if got := affected([]Mutant{caughtRow(), renewed, added}, before,
		[]string{"test/mutants/rows/gate.diff"}); !slices.Equal(names(got), []string{renewed.Name, "added"}) {
		t.Errorf("%v", names(got))
	}
}

// TestTokens: what changes no verdict is no change of a file.
func TestTokens(t *testing.T) {
	const source = "//go:build linux\n\npackage a\n\nimport \"x/y\"\n\n// f adds.\nfunc f() int { return 1 + y.Z }\n"
	for name, c := range map[string]struct {
		source string
		same   bool
	}{
		"an import that moved": {strings.Replace(source, "x/y", "z/x/y", 1), true},
		"a comment":            {strings.Replace(source, "f adds", "f returns a sum", 1), true},
		"a line break":         {strings.Replace(source, "{ return", "{\n\treturn", 1), true},
		"a number":             {strings.Replace(source, "1 +", "2 +", 1), false},
		"a build constraint":   {strings.Replace(source, "go:build linux", "go:build !linux", 1), false},
		"no Go":                {"package", false},
	} {
		if same := slices.Equal(tokens([]byte(c.source)), tokens([]byte(source))); same != c.same {
			t.Errorf("%s: the code is the same: %v", name, same)
		}
	}
}

func names(mutants []Mutant) (out []string) {
	for _, m := range mutants {
		out = append(out, m.Name)
	}
	return out
}
