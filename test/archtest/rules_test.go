package archtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// fixture is a small source and the lines on which one rule must find fault:
// none, when the rule must leave it alone.
type fixture struct {
	name  string
	rule  string
	file  string
	src   string
	lines []int
}

func TestRules(t *testing.T) {
	flagged, spared := make(map[string]bool), make(map[string]bool)
	for _, f := range slices.Concat(importFixtures, textFixtures, purityFixtures, sizeFixtures, hermeticFixtures) {
		if len(f.lines) > 0 {
			flagged[f.rule] = true
		} else {
			spared[f.rule] = true
		}
		t.Run(f.rule+"/"+f.name, func(t *testing.T) { f.run(t) })
	}
	for _, rule := range Rules() {
		if !flagged[rule.Name] || !spared[rule.Name] {
			t.Errorf("rule %s needs a fixture that it flags and one that it spares", rule.Name)
		}
	}
}

func (f fixture) run(t *testing.T) {
	tree := NewTree(moduleRoot(t))
	if err := tree.Add(f.file, []byte(f.src)); err != nil {
		t.Fatal(err)
	}
	var lines []int
	var told strings.Builder
	for _, rule := range Rules() {
		if rule.Name != f.rule {
			continue
		}
		report := &Report{rule: rule.Name, tree: tree}
		rule.Check(tree, report)
		for _, finding := range report.findings {
			lines = append(lines, finding.Line)
			fmt.Fprintln(&told, finding)
		}
	}
	slices.Sort(lines)
	if !slices.Equal(lines, f.lines) {
		t.Errorf("flagged lines %v, want %v\n%s", lines, f.lines, &told)
	}
}

// importing writes a file that imports the given path on its third line.
func importing(path string) string {
	return fmt.Sprintf("package p\n\nimport _ %q\n", path)
}

func TestFindingIsAPlaceAndARule(t *testing.T) {
	got := Finding{File: "fsm/x.go", Line: 7, Rule: "pure", Message: "no select"}.String()
	if want := "fsm/x.go:7: pure: no select"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLoadNamesTheFileThatDoesNotParse(t *testing.T) {
	err := NewTree(".").Add("fsm/broken.go", []byte("package fsm\nfunc {"))
	if err == nil || !strings.Contains(err.Error(), "fsm/broken.go:2") {
		t.Errorf("got %v", err)
	}
}

func TestPackageCommentMayStandInAnyFile(t *testing.T) {
	tree := NewTree(".")
	for name, src := range map[string]string{
		"fsm/a.go":   "package fsm\n",
		"fsm/doc.go": "// Package fsm is a function.\npackage fsm\n",
	} {
		if err := tree.Add(name, []byte(src)); err != nil {
			t.Fatal(err)
		}
	}
	for _, finding := range Check(tree) {
		t.Error(finding)
	}
}
