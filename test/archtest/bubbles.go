package archtest

import (
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// bubbleNote excuses a wait that runs only inside a synctest bubble although this cannot
// be seen, written on the line of the wait or in the comment of its function.
const bubbleNote = "in a bubble"

// waitPackage owns the waits of tests in real time: each has a bound there and says what
// it waits for.
const waitPackage = "test/testwait"

// name is a function by the import path of its package.
type name struct{ importPath, name string }

// bubbleTest runs a function in a bubble, where time is virtual.
var bubbleTest = name{"testing/synctest", "Test"}

// span is a part of the source.
type span struct{ from, to token.Pos }

// waits reports whether the waits of a file are a test's: it is one, or of a harness that
// neither owns the waits nor runs in a bubble as a whole. What test/bench measures takes
// real time.
func (f *File) waits() bool {
	pkg := f.Package()
	return f.isGo() && (f.test() || within(pkg, "test") && !within(pkg, "test/bench") &&
		!slices.Contains([]string{waitPackage, "test/simtest", "test/simnet"}, pkg))
}

// calls returns what each function of some files calls by name, methods left out: without
// types it is not known whose they are.
func (t *Tree) calls(of func(*File) bool) map[name][]name {
	calls := make(map[name][]name)
	for _, file := range t.Files {
		if !of(file) {
			continue
		}
		imports := file.imports()
		for fn := range file.funcs() {
			caller := name{Module + "/" + file.Package(), fn.Name.Name}
			ast.Inspect(fn, func(node ast.Node) bool {
				if call, ok := node.(*ast.CallExpr); ok && fn.Recv == nil {
					calls[caller] = append(calls[caller], callee(file, imports, call))
				}
				return true
			})
		}
	}
	return calls
}

// callee names what a call calls: a function of the file's package or of one that it
// imports, the zero name for a method.
func callee(file *File, imports map[string]string, call *ast.CallExpr) name {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return name{Module + "/" + file.Package(), fun.Name}
	case *ast.SelectorExpr:
		if pkg, ok := fun.X.(*ast.Ident); ok && imports[pkg.Name] != "" {
			return name{imports[pkg.Name], fun.Sel.Name}
		}
	}
	return name{}
}

// reaching returns the functions that call one of the targets, directly or through others.
func reaching(calls map[name][]name, targets map[name]bool) map[name]bool {
	reached := maps.Clone(targets)
	for before := -1; before != len(reached); {
		before = len(reached)
		for caller, called := range calls {
			if slices.ContainsFunc(called, func(one name) bool { return reached[one] }) {
				reached[caller] = true
			}
		}
	}
	return reached
}

// BubbleTests returns the tests that enter a synctest bubble, themselves or through
// functions that they call, sorted, by the directory of their package. A second run
// excuses no failure of theirs: time in a bubble is virtual, and what fails there once
// is a defect that shows seldom.
func BubbleTests(tree *Tree) map[string][]string {
	enter := reaching(tree.calls((*File).isGo), map[name]bool{bubbleTest: true})
	tests := make(map[string][]string)
	for pkg, names := range tree.tests() {
		for _, test := range slices.Sorted(slices.Values(names)) {
			if enter[name{Module + "/" + pkg, test}] {
				tests[pkg] = append(tests[pkg], test)
			}
		}
	}
	return tests
}

// findTests returns the names of the tests of each package.
func (t *Tree) findTests() map[string][]string {
	tests := make(map[string][]string)
	for _, file := range t.Files {
		for fn := range file.funcs() {
			if file.test() && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				tests[file.Package()] = append(tests[file.Package()], fn.Name.Name)
			}
		}
	}
	return tests
}

// inBubble reports whether what stands at pos runs in a bubble: it is handed to
// synctest.Test or to a function of this module that calls it, or stands in a helper whose
// every mention in the tests of its package is in a bubble, or a note says so.
func (f *File) inBubble(pos token.Pos) bool {
	return slices.ContainsFunc(f.tree.virtual()[f], func(s span) bool { return s.from <= pos && pos < s.to })
}

// testEntry matches the functions that go test calls itself, in real time.
var testEntry = regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)`)

// helper is all functions and methods of one name in the tests of a package: the rules go
// by names, and all of them run in bubbles or none.
type helper struct {
	bodies   map[*File][]span
	mentions map[*File][]token.Pos
}

// findVirtual finds what runs in bubbles.
func (t *Tree) findVirtual() map[*File][]span {
	bubbles := map[name]bool{bubbleTest: true}
	for caller, called := range t.calls((*File).isGo) {
		if slices.Contains(called, bubbleTest) {
			bubbles[caller] = true
		}
	}
	virtual, helpers := make(map[*File][]span), make(map[name]*helper)
	for _, file := range t.Files {
		if file.waits() {
			virtual[file] = append(file.handedTo(bubbles), file.notedSpans()...)
			file.addHelpers(helpers)
		}
	}
	for _, file := range t.Files {
		if file.waits() {
			ast.Inspect(file.Syntax, func(node ast.Node) bool {
				if ident, ok := node.(*ast.Ident); ok && helpers[name{file.Package(), ident.Name}] != nil {
					h := helpers[name{file.Package(), ident.Name}]
					h.mentions[file] = append(h.mentions[file], ident.Pos())
				}
				return true
			})
		}
	}
	for before := -1; before != len(helpers); {
		before = len(helpers)
		for name, h := range helpers {
			if h.onlyIn(virtual) {
				for file, bodies := range h.bodies {
					virtual[file] = append(virtual[file], bodies...)
				}
				delete(helpers, name)
			}
		}
	}
	return virtual
}

// handedTo returns the arguments of calls of functions that run them in a bubble.
func (f *File) handedTo(bubbles map[name]bool) (spans []span) {
	imports := f.imports()
	ast.Inspect(f.Syntax, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok && bubbles[callee(f, imports, call)] {
			spans = append(spans, span{call.Lparen, call.Rparen})
		}
		return true
	})
	return spans
}

// notedSpans returns the lines and functions whose comments say that they run in a bubble.
func (f *File) notedSpans() (spans []span) {
	lines := f.tree.fset.File(f.Syntax.Package)
	for line := range f.noted(bubbleNote) {
		if line < lines.LineCount() {
			spans = append(spans, span{lines.LineStart(line), lines.LineStart(line + 1)})
		}
	}
	return spans
}

// addHelpers adds the functions and methods of a file that go test does not call itself.
func (f *File) addHelpers(helpers map[name]*helper) {
	for fn := range f.funcs() {
		id := name{f.Package(), fn.Name.Name}
		if testEntry.MatchString(fn.Name.Name) {
			continue
		}
		if helpers[id] == nil {
			helpers[id] = &helper{make(map[*File][]span), make(map[*File][]token.Pos)}
		}
		helpers[id].bodies[f] = append(helpers[id].bodies[f], span{fn.Pos(), fn.End()})
	}
}

// onlyIn reports whether a helper is mentioned, outside itself, and only in the spans.
func (h *helper) onlyIn(virtual map[*File][]span) bool {
	mentioned := false
	for file, all := range h.mentions {
		for _, pos := range all {
			covers := func(s span) bool { return s.from <= pos && pos < s.to }
			if slices.ContainsFunc(h.bodies[file], covers) {
				continue
			}
			if !slices.ContainsFunc(virtual[file], covers) {
				return false
			}
			mentioned = true
		}
	}
	return mentioned
}
