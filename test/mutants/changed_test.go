package main

import (
	"path"
	"path/filepath"
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
		{"several", []string{"test/simtest/world.go", "raftstore/leader/lead.go"}, []string{"own-file", "token-not-compared"}},
		{"a table that is gone", []string{"test/mutants/table_gone.go"}, nil},
	}
	for _, c := range cases {
		got, err := affected(t.TempDir(), rows, c.changed)
		if err != nil || !slices.Equal(names(got), c.want) {
			t.Errorf("%s: %v (%v), want %v", c.name, names(got), err, c.want)
		}
	}
}

// TestAffectedByTheirTable: a change of a table file has its rows judged, each of them
// and no other.
func TestAffectedByTheirTable(t *testing.T) {
	files, err := filepath.Glob("table*.go")
	if err != nil {
		t.Fatal(err)
	}
	in := make(map[string][]string) // table files by name of the row
	for _, file := range files {
		rows, err := affected("../..", table(), []string{path.Join("test/mutants", file)})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range rows {
			in[m.Name] = append(in[m.Name], file)
		}
	}
	for _, m := range table() {
		if len(in[m.Name]) != 1 {
			t.Errorf("%s: its row is found in %d tables, not in one: %v", m.Name, len(in[m.Name]), in[m.Name])
		}
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
