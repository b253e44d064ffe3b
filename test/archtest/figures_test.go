package archtest

import (
	"strings"
	"testing"
)

// TestFigures measures a small house.
func TestFigures(t *testing.T) {
	tree := NewTree(t.TempDir())
	for name, source := range map[string]string{
		"main.go":            "package main\n\nimport _ \"" + Module + "/app\"\n",
		"app/a.go":           "package app\n\nimport _ \"" + Module + "/fsm\"\nimport _ \"" + Module + "/internal/pace\"\n",
		"fsm/a_test.go":      "package fsm\n\nimport _ \"" + Module + "/app\"\n\nfunc F() {}\n",
		"internal/pace/p.go": "package pace\n",
		"test/simtest/x.go":  "package simtest\n\nimport _ \"" + Module + "/app\"\n\nfunc F() {}\n",
		"api/web/a.js":       "// one\n\nlet a = 1; // b\n/* two\n three */\n  f();\n",
		"api/web/a.css":      "/* one */\np { }\n",
		"test/uitest/b.js":   "f();\n",
		"fsm/a.go": `package fsm

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
	want := `folders at the top       5
arrows between them      3, circles reached from 0 folders
lines of code            18
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

// TestPictureDiffers: a picture that is out of date is found. What draws it is compared
// with the page by TestArchitectureHasThePicture.
func TestPictureDiffers(t *testing.T) {
	const want = "fsm/   0.0k  the state\ninternal/     0.0k\n"
	for stale, says := range map[string]string{
		strings.Replace(want, "0.0k", "0.3k", 1):            "",
		strings.Replace(want, "0.0k", "0.4k", 1):            "0.4k  the state",
		strings.Replace(want, "the state", "a database", 1): "a database",
		strings.TrimSuffix(want, "\n"):                      "2 lines on the page",
		want + "more\n":                                     "4 lines on the page",
	} {
		if got := pictureDiffers(stale, want); (got == "") != (says == "") || !strings.Contains(got, says) {
			t.Errorf("%q is said of\n%s\nwant %q", got, stale, says)
		}
	}
}
