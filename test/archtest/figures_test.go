package archtest

import (
	"slices"
	"strings"
	"testing"
)

func TestFigures(t *testing.T) {
	tree := NewTree(t.TempDir())
	for name, source := range map[string]string{
		"fsm/a.go": `package fsm

import "fmt"

// Wide is for whoever asks.
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

	fmt.Println(p.x)
}

func (p *pair) twice() { p.Once(); p.twice() }
`,
		"fsm/a_test.go":           "package fsm\nfunc F() {}\n",
		"test/x/x.go":             "package x\nfunc F() {}\n",
		"packaging/p.go":          "package main\n\n// pack does.\nfunc pack() {}\n",
		"cli/trivet-import/m.go":  "package main\n\nimport \"os\"\n",
		"test/simtest/x.go":       "package simtest\n\nimport \"os\"\n\nfunc F() {}\n",
		"test/simtest/x_test.go":  "package simtest\n\nfunc G() {}\n",
		"test/simtest/below/x.go": "package below\n\nfunc F() {}\n",
	} {
		if err := tree.Add(name, []byte(source)); err != nil {
			t.Fatal(err)
		}
	}
	f := Measure(tree)
	if f.Lines != 18 || !slices.Equal(f.Functions, []int{1, 1, 6}) || f.CalledOnce != 1 || f.Harness != 5 {
		t.Errorf("%d lines, functions %v, %d called once, %d lines of harness", f.Lines, f.Functions, f.CalledOnce, f.Harness)
	}
	for what, c := range map[string]struct {
		got  []Size
		want Size
	}{
		"structs": {f.Structs, Size{"fsm.pair", 2}}, "method sets": {f.MethodSets, Size{"fsm.pair", 2}},
		"exported names": {f.Exported, Size{"fsm", 2}}, "interfaces": {f.Interfaces, Size{"fsm.Wide", 4}},
	} {
		if !slices.Equal(c.got, []Size{c.want}) {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
	var b strings.Builder
	if err := f.Write(&b); err != nil || !strings.Contains(b.String(), "exported names           fsm 2") {
		t.Errorf("%q, %v", b.String(), err)
	}
}
