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
	for _, file := range t.filesOf(of) {
		imports := file.imports()
		for _, fn := range file.funcs {
			caller := name{Module + "/" + file.Package(), fn.Name.Name}
			for call := range each[*ast.CallExpr](fn) {
				if fn.Recv == nil {
					calls[caller] = append(calls[caller], callee(file, imports, call))
				}
			}
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
	for _, test := range slices.Sorted(strings.FieldsSeq(tree.tests.String())) {
		dot := strings.LastIndexByte(test, '.')
		if pkg := test[:dot]; enter[name{Module + "/" + pkg, test[dot+1:]}] {
			tests[pkg] = append(tests[pkg], test[dot+1:])
		}
	}
	return tests
}

// inBubble reports whether a node stands on a line that runs in a bubble: one of what is
// handed to synctest.Test or to a function of this module that calls it, or of a helper
// whose every mention in the tests of its package is on such a line, or a note says so.
func (f *File) inBubble(node ast.Node) bool {
	return f.tree.on(f.tree.virtual(), node)
}

// on reports whether a node stands on one of the lines of its file.
func (t *Tree) on(all map[*token.File]lines, node ast.Node) bool {
	return all[t.fset.File(node.Pos())][t.line(node.Pos())]
}

// testEntry matches the functions that go test calls itself, in real time.
var testEntry = regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)`)

// helper is all functions and methods of one name in the tests of a package: the rules go
// by names, and all of them run in bubbles or none.
type helper struct {
	bodies   []*ast.FuncDecl
	mentions []*ast.Ident // outside the bodies
}

// findVirtual finds the lines that run in bubbles.
func (t *Tree) findVirtual() map[*token.File]lines {
	bubbles := map[name]bool{bubbleTest: true}
	for caller, called := range t.calls((*File).isGo) {
		if slices.Contains(called, bubbleTest) {
			bubbles[caller] = true
		}
	}
	virtual := make(map[*token.File]lines)
	waiting := t.filesOf((*File).waits)
	for _, file := range waiting {
		imports, inside := file.imports(), file.noted(bubbleNote)
		for call := range each[*ast.CallExpr](file.Syntax) {
			if bubbles[callee(file, imports, call)] {
				inside.add(t, call)
			}
		}
		virtual[t.fset.File(file.Syntax.Package)] = inside
	}
	helpers := helpersIn(waiting)
	for before := -1; before != len(helpers); {
		before = len(helpers)
		for name, h := range helpers {
			outside := func(mention *ast.Ident) bool { return !t.on(virtual, mention) }
			if len(h.mentions) > 0 && !slices.ContainsFunc(h.mentions, outside) {
				for _, body := range h.bodies {
					virtual[t.fset.File(body.Pos())].add(t, body)
				}
				delete(helpers, name)
			}
		}
	}
	return virtual
}

// helpersIn returns the functions and methods in files of tests that go test does not call
// itself.
func helpersIn(files []*File) map[name]*helper {
	helpers := make(map[name]*helper)
	for _, file := range files {
		for _, fn := range file.funcs {
			if id := (name{file.Package(), fn.Name.Name}); !testEntry.MatchString(id.name) {
				if helpers[id] == nil {
					helpers[id] = new(helper)
				}
				helpers[id].bodies = append(helpers[id].bodies, fn)
			}
		}
	}
	for _, file := range files {
		for ident := range each[*ast.Ident](file.Syntax) {
			h := helpers[name{file.Package(), ident.Name}]
			inside := func(body *ast.FuncDecl) bool { return body.Pos() <= ident.Pos() && ident.Pos() < body.End() }
			if h != nil && !slices.ContainsFunc(h.bodies, inside) {
				h.mentions = append(h.mentions, ident)
			}
		}
	}
	return helpers
}
