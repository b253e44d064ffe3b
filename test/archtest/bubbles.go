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

// name is a function by the import path of its package.
type name struct{ importPath, name string }

// bubbleTest runs a function in a bubble, where time is virtual.
var bubbleTest = name{"testing/synctest", "Test"}

// waitingTests are the files of each package whose waits are a test's, and what runs in
// a bubble.
type waitingTests struct {
	files   map[string][]*File
	bubbles map[name]bool              // functions that call synctest.Test themselves
	helpers map[string]map[string]bool // of a package: functions that run in a bubble only
}

// waitingTests finds them, once for all rules.
func (t *Tree) waitingTests() *waitingTests {
	if t.tests != nil {
		return t.tests
	}
	tests := &waitingTests{files: make(map[string][]*File), bubbles: map[name]bool{bubbleTest: true},
		helpers: make(map[string]map[string]bool)}
	for caller, called := range t.calls(true) { // order-free: into a map
		if called[bubbleTest] {
			tests.bubbles[caller] = true
		}
	}
	for _, file := range t.Files {
		if file.Test() || waits(file.Package()) {
			tests.files[file.Package()] = append(tests.files[file.Package()], file)
		}
	}
	for pkg, files := range tests.files { // order-free: into a map
		tests.helpers[pkg] = bubbleHelpers(files, tests.bubbles)
	}
	t.tests = tests
	return tests
}

// calls returns what each function calls by name, methods left out: without types it is
// not known whose they are.
func (t *Tree) calls(tests bool) map[name]map[name]bool {
	calls := make(map[name]map[name]bool)
	for _, file := range t.Files {
		if file.Test() && !tests {
			continue
		}
		imports := file.Imports()
		for fn := range file.funcs() {
			if fn.Recv != nil {
				continue
			}
			caller := name{Module + "/" + file.Package(), fn.Name.Name}
			if calls[caller] == nil {
				calls[caller] = make(map[name]bool)
			}
			ast.Inspect(fn, func(node ast.Node) bool {
				if call, ok := node.(*ast.CallExpr); ok {
					calls[caller][callee(file, imports, call)] = true
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
	if ident, ok := call.Fun.(*ast.Ident); ok {
		return name{Module + "/" + file.Package(), ident.Name}
	}
	target, selected, _ := selected(imports, call.Fun)
	return name{target, selected}
}

// reaching returns the functions that call one of the targets, directly or through
// others.
func reaching(calls map[name]map[name]bool, targets map[name]bool) map[name]bool {
	reached := maps.Clone(targets)
	for before := -1; before != len(reached); {
		before = len(reached)
		for caller, called := range calls { // order-free: until nothing changes
			for one := range called { // order-free: any of them
				if reached[one] {
					reached[caller] = true
				}
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
	enter := reaching(tree.calls(true), map[name]bool{bubbleTest: true})
	tests := make(map[string][]string)
	for _, file := range tree.Files {
		pkg := file.Package()
		for fn := range file.funcs() {
			if file.Test() && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") &&
				enter[name{Module + "/" + pkg, fn.Name.Name}] {
				tests[pkg] = append(tests[pkg], fn.Name.Name)
			}
		}
	}
	for _, names := range tests { // order-free: each is sorted
		slices.Sort(names)
	}
	return tests
}

// inRealTime calls check for each declaration of the tests and harnesses, with
// what visits the declaration's nodes that run outside a bubble. In the bubble is
// what is handed to synctest.Test or to a function of this module that calls it,
// and a helper whose every mention in the tests of its package is in the bubble
// itself.
func inRealTime(tree *Tree, check func(file *File, visit func(func(ast.Node)))) {
	tests := tree.waitingTests()
	for pkg, files := range tests.files { // order-free: findings are sorted
		helpers, bubbles := tests.helpers[pkg], tests.bubbles
		for _, file := range files {
			notes := noteLines(tree, file, bubbleNote)
			for _, decl := range file.Syntax.Decls {
				fn, isFunc := decl.(*ast.FuncDecl)
				if isFunc && (helpers[fn.Name.Name] || strings.Contains(fn.Doc.Text(), bubbleNote)) {
					continue
				}
				check(file, func(do func(ast.Node)) {
					walkBubbles(file, decl, false, bubbles, func(node ast.Node, inBubble bool) {
						if !inBubble && !notes[tree.Line(node.Pos())] {
							do(node)
						}
					})
				})
			}
		}
	}
}

// walkBubbles visits every node below root and says whether it is handed to a
// function that runs it in a bubble.
func walkBubbles(file *File, root ast.Node, inBubble bool, bubbles map[name]bool, visit func(ast.Node, bool)) {
	imports := file.Imports()
	ast.Inspect(root, func(node ast.Node) bool {
		if node == nil {
			return false
		}
		visit(node, inBubble)
		call, ok := node.(*ast.CallExpr)
		if !ok || inBubble || !bubbles[callee(file, imports, call)] {
			return true
		}
		for _, arg := range call.Args {
			walkBubbles(file, arg, true, bubbles, visit)
		}
		return false
	})
}

// testEntry matches the functions that go test calls itself, in real time.
var testEntry = regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)`)

// bubbleHelpers finds the functions and methods of a package's tests that are
// mentioned, and only in a bubble or in another of them. It goes by name, so
// of two methods with one name both are helpers or neither.
func bubbleHelpers(files []*File, bubbles map[name]bool) map[string]bool {
	mentions := make(map[string][]string) // name → mentioning functions, "" for a bubble
	helpers := make(map[string]bool)
	for _, file := range files {
		for _, decl := range file.Syntax.Decls {
			within := "package level"
			var self *ast.Ident
			if fn, ok := decl.(*ast.FuncDecl); ok {
				within, self = fn.Name.Name, fn.Name
				helpers[within] = !testEntry.MatchString(within)
			}
			walkBubbles(file, decl, false, bubbles, func(node ast.Node, inBubble bool) {
				if ident, ok := node.(*ast.Ident); ok && ident != self {
					from := within
					if inBubble {
						from = ""
					}
					mentions[ident.Name] = append(mentions[ident.Name], from)
				}
			})
		}
	}
	for changed := true; changed; {
		changed = false
		for name, ok := range helpers { // order-free: the fixed point is one
			outside := func(from string) bool { return from != "" && !helpers[from] }
			if ok && (len(mentions[name]) == 0 || slices.ContainsFunc(mentions[name], outside)) {
				helpers[name], changed = false, true
			}
		}
	}
	return helpers
}

// noteLines returns the lines that carry a comment with the given note, and
// the lines right below a comment that stands alone.
func noteLines(tree *Tree, file *File, note string) map[int]bool {
	lines := make(map[int]bool)
	for _, group := range file.Syntax.Comments {
		for _, comment := range group.List {
			if strings.Contains(comment.Text, note) {
				lines[tree.Line(comment.Pos())] = true
				lines[tree.Line(group.End())+1] = true
			}
		}
	}
	return lines
}
