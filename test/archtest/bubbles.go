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

// spans are parts of files, from a position to another.
type spans map[*token.File][][2]token.Pos

func (t *Tree) addSpan(s spans, from, to token.Pos) {
	file := t.fset.File(from)
	s[file] = append(s[file], [2]token.Pos{from, to})
}

func (t *Tree) inSpan(s spans, pos token.Pos) bool {
	return slices.ContainsFunc(s[t.fset.File(pos)], func(s [2]token.Pos) bool { return s[0] <= pos && pos < s[1] })
}

// inBubble reports whether what stands at pos runs in a bubble: it is handed to
// synctest.Test or to a function of this module that calls it, or stands in a helper whose
// every mention in the tests of its package is in a bubble, or a note says so.
func (f *File) inBubble(pos token.Pos) bool { return f.tree.inSpan(f.tree.virtual(), pos) }

// testEntry matches the functions that go test calls itself, in real time.
var testEntry = regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)`)

// helper is all functions and methods of one name in the tests of a package: the rules go
// by names, and all of them run in bubbles or none.
type helper struct {
	bodies   []*ast.FuncDecl
	mentions []token.Pos // outside the bodies
}

// findVirtual finds what runs in bubbles.
func (t *Tree) findVirtual() spans {
	bubbles := map[name]bool{bubbleTest: true}
	for caller, called := range t.calls((*File).isGo) {
		if slices.Contains(called, bubbleTest) {
			bubbles[caller] = true
		}
	}
	virtual := make(spans)
	for _, file := range t.Files {
		if !file.waits() {
			continue
		}
		imports, lines := file.imports(), t.fset.File(file.Syntax.Package)
		ast.Inspect(file.Syntax, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok && bubbles[callee(file, imports, call)] {
				t.addSpan(virtual, call.Lparen, call.Rparen)
			}
			return true
		})
		for line := range file.noted(bubbleNote) {
			if line < lines.LineCount() {
				t.addSpan(virtual, lines.LineStart(line), lines.LineStart(line+1))
			}
		}
	}
	helpers := t.helpers()
	for before := -1; before != len(helpers); {
		before = len(helpers)
		for name, h := range helpers {
			outside := func(pos token.Pos) bool { return !t.inSpan(virtual, pos) }
			if len(h.mentions) > 0 && !slices.ContainsFunc(h.mentions, outside) {
				for _, body := range h.bodies {
					t.addSpan(virtual, body.Pos(), body.End())
				}
				delete(helpers, name)
			}
		}
	}
	return virtual
}

// helpers returns the functions and methods of tests that go test does not call itself.
func (t *Tree) helpers() map[name]*helper {
	helpers := make(map[name]*helper)
	for _, file := range t.Files {
		for fn := range file.funcs() {
			if id := (name{file.Package(), fn.Name.Name}); file.waits() && !testEntry.MatchString(id.name) {
				if helpers[id] == nil {
					helpers[id] = new(helper)
				}
				helpers[id].bodies = append(helpers[id].bodies, fn)
			}
		}
	}
	for _, file := range t.Files {
		ast.Inspect(file.Syntax, func(node ast.Node) bool {
			ident, ok := node.(*ast.Ident)
			if !ok || !file.waits() {
				return true
			}
			h := helpers[name{file.Package(), ident.Name}]
			inside := func(body *ast.FuncDecl) bool { return body.Pos() <= ident.Pos() && ident.Pos() < body.End() }
			if h != nil && !slices.ContainsFunc(h.bodies, inside) {
				h.mentions = append(h.mentions, ident.Pos())
			}
			return true
		})
	}
	return helpers
}
