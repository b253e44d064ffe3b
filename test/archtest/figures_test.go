package archtest

import (
	"slices"
	"strings"
	"testing"
)

// house is a small one.
func smallHouse(t *testing.T) *Tree {
	t.Helper()
	tree := NewTree(t.TempDir())
	for name, source := range map[string]string{
		"main.go":            "// Command trivet runs a peer. More.\npackage main\n\nimport _ \"" + Module + "/app\"\n",
		"app/doc.go":         "// Package app wires one peer\n// together: New opens it.\npackage app\n",
		"app/a.go":           "package app\n\nimport _ \"" + Module + "/fsm\"\nimport _ \"" + Module + "/internal/pace\"\n",
		"app/x/x.go":         "// Package x is here, in a text that goes on for longer than a phrase in the picture may be wide.\npackage x\n",
		"app/y/y.go":         "// Package y asks each of the hosts, in turn and for as long as anybody wants to know of it.\npackage y\n",
		"fsm/a_test.go":      "// Package fsm tests.\npackage fsm\n\nimport _ \"" + Module + "/app\"\n\nfunc F() {}\n",
		"internal/pace/p.go": "// Package pace spaces what is repeated.\npackage pace\n",
		"test/simtest/x.go":  "package simtest\n\nimport _ \"" + Module + "/app\"\n\nfunc F() {}\n",
		"api/web/a.js":       "// one\n\nlet a = 1; // b\n/* two\n three */\n  f();\n",
		"api/web/a.css":      "/* one */\np { }\n",
		"test/uitest/b.js":   "f();\n",
		"fsm/a.go": `// Package fsm is the state.
package fsm

// Wide is for all.
type Wide interface {
	A()
	B()
	C()
	D()
}

type pair struct{ x, y int }

func (p *pair) Once() {
	// A comment.
	p.twice()

}

func (p *pair) twice() { p.Once(); p.twice() }
`,
	} {
		tree.add(t, name, source)
	}
	tree.Folders = []string{"api", "app", "fsm", "internal", "test"}
	return tree
}

func TestFigures(t *testing.T) {
	tree := smallHouse(t)
	want := `folders at the top       5
arrows between them      3, circles reached from 0 folders
lines of code            21
functions                2, of 5 lines (median), 5 (p90), 5 (longest)
called once              50 %
interfaces over three    1; fsm.Wide 4
structs over 15 fields   0; fsm.pair 2
types over 30 methods    0; fsm.pair 2
exported names           fsm 2
lines of harness         3 in test/mutants, test/labtest, test/simtest
lines of JS and CSS      3
`
	if got := Figures(tree); got != want {
		t.Errorf("the figures are\n%s\nwant\n%s", got, want)
	}
	tree.add(t, "fsm/c.go", "package fsm\n\nimport _ \""+Module+"/app/x\"\n")
	if got := Figures(tree); !strings.Contains(got, "4, circles reached from 3 folders") {
		t.Errorf("two folders import each other, and test imports one of them:\n%s", got)
	}
}

// TestPicture draws a small house: floors by imports, tests and harnesses left out,
// comments cut to their first clause; and a picture of it that is out of date is found.
func TestPicture(t *testing.T) {
	want := strings.Join([]string{
		"main.go       0.0k  runs a peer", "",
		"app/          0.0k  wires one peer together: New opens it",
		"                    x/ here, in a text that goes on for longer than a phrase …; y/ asks each of the hosts", "",
		"fsm/          0.0k  the state",
		"internal/     0.0k",
		"                    pace/ spaces what is repeated", "",
	}, "\n")
	if got := picture(smallHouse(t)); got != want {
		t.Errorf("the picture is\n%s\nwant\n%s", got, want)
	}
	items := slices.Repeat([]string{strings.Repeat("ä", 40)}, 4)
	if got := strings.Count(wrapped(items), ";\n"); got != 1 {
		t.Errorf("%d lines end within four packages of 40 letters, want one", got)
	}
	for stale, says := range map[string]string{
		strings.Replace(want, "0.0k  the state", "0.3k  the state", 1): "",
		strings.Replace(want, "0.0k  the state", "0.4k  the state", 1): "fsm/ has 0.0k lines",
		strings.Replace(want, "the state", "a database", 1):            "a database",
		strings.TrimSuffix(want, "\n"):                                 "8 lines on the page",
		want + "more\n":                                                `"more" on the page`,
	} {
		if got := pictureDiffers(stale, want); (got == "") != (says == "") || !strings.Contains(got, says) {
			t.Errorf("%q is said of\n%s\nwant %q", got, stale, says)
		}
	}
}
