package archtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// flagged ends the lines of a source at which a rule must find fault.
const flagged = " //!"

// inFixtures begins each source that names no package.
const inFixtures = `package p; import ("context"; "errors"; "log/slog"; "maps"; "math/rand/v2"; "net"; "net/http"; "os"; ` +
	`"os/exec"; "slices"; "sync"; "syscall"; "testing"; "testing/synctest"; "time")` + "\n"

// TestRules: each rule finds fault at the lines of small sources that are flagged, and at
// no others.
func TestRules(t *testing.T) {
	finds := map[string]bool{"bans": true} // in TestImports
	for i, f := range fixtures {
		source := f.source
		if strings.HasSuffix(f.file, ".go") && !strings.Contains(source, "package ") {
			source = inFixtures + source
		}
		var want []int
		for line, text := range strings.Split(source, "\n") {
			if strings.HasSuffix(text, flagged) {
				want = append(want, line+1)
			}
		}
		finds[f.rule] = finds[f.rule] || len(want) > 0
		t.Run(fmt.Sprintf("%s/%d", f.rule, i), func(t *testing.T) {
			tree := NewTree("../..")
			tree.add(t, "docs/time.md", "# A\n\n## The clock\n")
			tree.add(t, keysPage, "\n### Keys\n| key | |\n| `err`, `retry_in` | |\n| `peer` | |\n")
			tree.add(t, "test/mutants/rows/a.diff", "mutant: one\n")
			tree.add(t, "lease/a_test.go", "package lease\n\nfunc TestA() {}\n")
			tree.add(t, f.file, strings.ReplaceAll(source, flagged, ""))
			var got []int
			for _, finding := range found(tree, f.rule, f.file) {
				got = append(got, finding.Line)
			}
			if got = slices.Compact(got); !slices.Equal(got, want) {
				t.Errorf("flagged lines %v, want %v of\n%s", got, want, source)
			}
		})
	}
	for _, rule := range rules() {
		if !finds[rule.name] {
			t.Errorf("rule %s needs a fixture that it flags", rule.name)
		}
	}
}

// found returns what a rule finds in a file.
func found(tree *Tree, name, file string) (findings []Finding) {
	for _, rule := range rules() {
		if rule.name == name {
			findings = rule.judge(tree)
		}
	}
	return slices.DeleteFunc(findings, func(f Finding) bool { return f.File != file })
}

func (t *Tree) add(test *testing.T, name, source string) {
	test.Helper()
	if err := t.Add(name, source); err != nil {
		test.Fatal(err)
	}
}

// TestImports: a file may import some paths and not others; "~" is this module.
func TestImports(t *testing.T) {
	for _, row := range importRows {
		for list, refused := range map[string]bool{row.may: false, row.mayNot: true} {
			for _, target := range strings.Fields(list) {
				tree := NewTree(".")
				tree.add(t, row.file, fmt.Sprintf("package p\n\nimport _ %q\n", strings.Replace(target, "~", Module+"/", 1)))
				if findings := found(tree, row.rule, row.file); (len(findings) == 1 && findings[0].Line == 3) != refused {
					t.Errorf("%s of %s by %s: %v, want refused: %t", row.rule, target, row.file, findings, refused)
				}
			}
		}
	}
}

func TestLoadNamesTheFileThatDoesNotParse(t *testing.T) {
	err := NewTree(".").Add("fsm/broken.go", "package fsm\nfunc {")
	if err == nil || !strings.Contains(err.Error(), "fsm/broken.go:2") {
		t.Errorf("got %v", err)
	}
}

// TestHarnessOfATestIsHermetic: a harness is judged because a test imports it,
// directly or through another harness, and a test that calls what starts a process
// in its package is found.
func TestHarnessOfATestIsHermetic(t *testing.T) {
	const starts = "\n\nimport \"os/exec\"\n\nfunc start() { _ = exec.Command(\"true\") }\n\nfunc run() { start() }\n"
	tree := NewTree(".")
	tree.add(t, "app/x.go", "package app"+starts)
	tree.add(t, "app/x_test.go", "package app\n\nimport \""+Module+"/test/outer\"\n\nfunc use() { outer.Use(); run() }\n")
	tree.add(t, "app/slow_test.go", "//go:build e2e\n\npackage app\n\nimport _ \""+Module+"/test/slow\"\n")
	tree.add(t, "test/outer/x.go", "package outer\n\nimport _ \""+Module+"/test/inner\"\n")
	tree.add(t, "test/inner/x.go", "package inner"+starts)
	tree.add(t, "test/slow/x.go", "package slow"+starts)
	in := make(map[string]bool)
	for _, finding := range Check(tree) {
		if finding.Rule == "hermetic" {
			in[finding.File] = true
		}
	}
	if want := map[string]bool{"app/x_test.go": true, "test/inner/x.go": true}; !maps.Equal(in, want) {
		t.Errorf("found in %v, want %v", in, want)
	}
}

// TestBubbleTests: a test enters a bubble itself, in a case or through functions that it
// calls; the tests of a listener do not.
func TestBubbleTests(t *testing.T) {
	tree := NewTree(".")
	tree.add(t, "test/sim/x.go", "package sim\n\nimport \"testing/synctest\"\n\n"+
		"func Simulate(t *testing.T, body func()) { synctest.Test(t, func(t *testing.T) { body() }) }\n")
	tree.add(t, "app/x_test.go", `package app

import ("testing/synctest"; "github.com/trivet-ha/trivet/test/sim")

func TestDirectly(t *testing.T) { synctest.Test(t, wait) }

func TestInCases(t *testing.T) { t.Run("a", func(t *testing.T) { sim.Simulate(t, wait) }) }

func TestByHelpers(t *testing.T) { outer(t) }

func outer(t *testing.T) { inner(t) }

func inner(t *testing.T) { synctest.Test(t, wait) }

func TestNoBubble(t *testing.T) { t.Log(number()) }
`)
	got := BubbleTests(tree)
	if want := []string{"TestByHelpers", "TestDirectly", "TestInCases"}; len(got) != 1 || !slices.Equal(got["app"], want) {
		t.Errorf("%v, want %v in app", got, want)
	}
	if all := BubbleTests(wholeTree(t)); !slices.Contains(all["failover"], "TestStalledAPIServer") ||
		slices.Contains(all["internal/httpserver"], "TestOneSourceHasItsShare") {
		t.Errorf("of the repository: %v", all)
	}
}
