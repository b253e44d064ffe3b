package archtest

import (
	"go/ast"
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

// name returns the name of what an identifier means at the top level of the file's package.
func (f *File) name(ident *ast.Ident) name { return name{Module + "/" + f.Package(), ident.Name} }

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
			caller := file.name(fn.Name)
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
		return file.name(fun)
	case *ast.SelectorExpr:
		if pkg, ok := fun.X.(*ast.Ident); ok && imports[pkg.Name] != "" {
			return name{imports[pkg.Name], fun.Sel.Name}
		}
	}
	return name{}
}

// reaching returns what leads to one of the targets, or to nothing else if it must be all,
// directly or through others.
func reaching[K comparable](leads map[K][]K, targets map[K]bool, all bool) map[K]bool {
	reached := maps.Clone(targets)
	for before := -1; before != len(reached); {
		before = len(reached)
		for from, to := range leads {
			if slices.ContainsFunc(to, func(one K) bool { return reached[one] != all }) != all {
				reached[from] = true
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
	enter := reaching(tree.calls((*File).isGo), map[name]bool{bubbleTest: true}, false)
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
func (f *File) inBubble(node ast.Node) bool { return f.tree.virtual()[f][f.line(node.Pos())] }

// testEntry matches the functions that go test calls itself, in real time.
var testEntry = regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)`)

// findVirtual finds the lines that run in bubbles. A helper is all functions and methods of
// one name in the tests of a package, since without types it is not known which is called:
// all of them run in bubbles or none.
func (t *Tree) findVirtual() map[*File]lines {
	bubbles := map[name]bool{bubbleTest: true}
	for caller, called := range t.calls((*File).isGo) {
		if slices.Contains(called, bubbleTest) {
			bubbles[caller] = true
		}
	}
	virtual, waiting := make(map[*File]lines), t.filesOf((*File).waits)
	mentions := make(map[name][]name) // of each name: helpers, a bubble, or the zero name, which is real time
	for _, file := range waiting {
		imports, inside := file.imports(), file.noted(bubbleNote)
		for call := range each[*ast.CallExpr](file.Syntax) {
			if bubbles[callee(file, imports, call)] {
				inside.add(file, call)
			}
		}
		for _, decl := range file.Syntax.Decls {
			var owner name // a helper
			if fn, ok := decl.(*ast.FuncDecl); ok && !testEntry.MatchString(fn.Name.Name) {
				owner = file.name(fn.Name)
			}
			for ident := range each[*ast.Ident](decl) {
				from, mentioned := owner, file.name(ident)
				if inside[file.line(ident.Pos())] {
					from = bubbleTest
				}
				if mentioned != owner {
					mentions[mentioned] = append(mentions[mentioned], from)
				}
			}
		}
		virtual[file] = inside
	}
	inBubbles := reaching(mentions, map[name]bool{bubbleTest: true}, true)
	for _, file := range waiting {
		for _, fn := range file.funcs {
			if inBubbles[file.name(fn.Name)] {
				virtual[file].add(file, fn)
			}
		}
	}
	return virtual
}
