package archtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// flagged ends the lines of a source at which a rule must find fault.
const flagged = " //!"

// inFixtures begins each source that names no package.
const inFixtures = `package p; import ("context"; "errors"; "log/slog"; "maps"; "math/rand/v2"; "net"; "net/http"; "os"; ` +
	`"os/exec"; "slices"; "sync"; "syscall"; "testing"; "testing/synctest"; "time")` + "\n"

// TestRules: each rule finds fault at the lines of small sources that are flagged, and at
// no others.
func TestRules(t *testing.T) {
	finds := make(map[string]bool)
	for i, f := range fixtures {
		t.Run(fmt.Sprintf("%s/%d", f.rule, i), func(t *testing.T) {
			tree := NewTree("../..")
			tree.add(t, "docs/time.md", "# A\n\n## The clock\n")
			tree.add(t, keysPage, "\n### Keys\n| key | |\n| `err`, `retry_in` | |\n| `peer` | |\n")
			tree.add(t, "test/mutants/rows/a.diff", "mutant: one\n")
			tree.add(t, "lease/a_test.go", "package lease\n\nfunc TestA() {}\n")
			archive := txtar.Parse([]byte("-- " + f.file + " --\n" + f.source + "\n"))
			var want []string
			for _, file := range archive.Files {
				source := strings.TrimSuffix(string(file.Data), "\n")
				if strings.HasSuffix(file.Name, ".go") && !strings.Contains(source, "package ") {
					source = inFixtures + source
				}
				for line, text := range strings.Split(source, "\n") {
					if strings.HasSuffix(text, flagged) {
						want = append(want, fmt.Sprintf("%s:%d", file.Name, line+1))
					}
				}
				tree.add(t, file.Name, strings.ReplaceAll(source, flagged, ""))
			}
			finds[f.rule] = finds[f.rule] || len(want) > 0
			if got := found(tree, f.rule); !slices.Equal(got, want) {
				t.Errorf("flagged %v, want %v of\n%s", got, want, f.source)
			}
		})
	}
	for _, rule := range rules() {
		if !finds[rule.name] {
			t.Errorf("rule %s needs a fixture that it flags", rule.name)
		}
	}
}

// found returns the lines at which a rule finds fault.
func found(tree *Tree, name string) (places []string) {
	for _, rule := range rules() {
		if rule.name == name {
			for _, finding := range rule.judge(tree) {
				places = append(places, fmt.Sprintf("%s:%d", finding.File, finding.Line))
			}
		}
	}
	return slices.Compact(places)
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
		for list, want := range map[string][]string{row.may: nil, row.mayNot: {row.file + ":3"}} {
			for _, target := range strings.Fields(list) {
				tree := NewTree(".")
				tree.add(t, row.file, fmt.Sprintf("package p\n\nimport _ %q\n", strings.Replace(target, "~", Module+"/", 1)))
				if got := found(tree, "imports"); !slices.Equal(got, want) {
					t.Errorf("imports of %s by %s: %v, want %v", target, row.file, got, want)
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

// TestBubbleTests: a test enters a bubble in a function that it calls; one of a listener
// enters none. What calls what is in the fixtures of sleep and hermetic.
func TestBubbleTests(t *testing.T) {
	all := BubbleTests(wholeTree(t))
	if !slices.Contains(all["failover"], "TestStalledAPIServer") ||
		slices.Contains(all["internal/httpserver"], "TestOneSourceHasItsShare") {
		t.Errorf("of the repository: %v", all)
	}
}
