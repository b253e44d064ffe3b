package archtest

import (
	"go/ast"
	"regexp"
	"strings"
)

// bubbleNote excuses a wait that runs only inside a synctest bubble although
// this rule cannot see it, written on the line of the wait or in the comment
// of its function.
const bubbleNote = "in a bubble"

// bubble names a function that runs what it is given in a synctest bubble.
type bubble struct{ importPath, name string }

// realWaits are the functions of package time that a test waits with.
var realWaits = map[string]bool{"Sleep": true, "After": true, "Tick": true}

// checkSleep finds waits in real time, time.Sleep and its likes, in test files
// and in the harnesses: outside a bubble, where time is virtual and a sleep costs
// nothing, and outside the package that owns the waits.
func checkSleep(tree *Tree, report *Report) {
	inRealTime(tree, func(file *File, visit func(func(ast.Node))) {
		imports := file.Imports()
		visit(func(node ast.Node) {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return
			}
			if target, name, _ := selected(imports, call.Fun); target == "time" && realWaits[name] {
				report.Addf(file, call.Pos(), "time.%s in real time: use testing/synctest, or wait for the event with %s", name,
					waitPackage)
			}
		})
	})
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

// waitingTests are the files of each package whose waits are a test's, and what runs in
// a bubble.
type waitingTests struct {
	files   map[string][]*File
	bubbles map[bubble]bool
	helpers map[string]map[string]bool // of a package: functions that run in a bubble only
}

// waitingTests finds them, once for all rules.
func (t *Tree) waitingTests() *waitingTests {
	if t.tests != nil {
		return t.tests
	}
	tests := &waitingTests{files: make(map[string][]*File), bubbles: bubbleFuncs(t),
		helpers: make(map[string]map[string]bool)}
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

// bubbleFuncs finds synctest.Test and every function that calls it.
func bubbleFuncs(tree *Tree) map[bubble]bool {
	root := bubble{"testing/synctest", "Test"}
	bubbles := map[bubble]bool{root: true}
	for _, file := range tree.Files {
		imports := file.Imports()
		for fn := range file.funcs() {
			if fn.Recv != nil {
				continue
			}
			ast.Inspect(fn, func(node ast.Node) bool {
				if call, ok := node.(*ast.CallExpr); ok {
					if target, name, _ := selected(imports, call.Fun); (bubble{target, name}) == root {
						bubbles[bubble{Module + "/" + file.Package(), fn.Name.Name}] = true
					}
				}
				return true
			})
		}
	}
	return bubbles
}

// walkBubbles visits every node below root and says whether it is handed to a
// function that runs it in a bubble.
func walkBubbles(file *File, root ast.Node, inBubble bool, bubbles map[bubble]bool, visit func(ast.Node, bool)) {
	imports := file.Imports()
	ast.Inspect(root, func(node ast.Node) bool {
		if node == nil {
			return false
		}
		visit(node, inBubble)
		call, ok := node.(*ast.CallExpr)
		if !ok || inBubble {
			return true
		}
		target, name, _ := selected(imports, call.Fun)
		if ident, ok := call.Fun.(*ast.Ident); ok {
			target, name = Module+"/"+file.Package(), ident.Name
		}
		if !bubbles[bubble{target, name}] {
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
func bubbleHelpers(files []*File, bubbles map[bubble]bool) map[string]bool {
	mentions := make(map[string][]string) // name → mentioning functions, "" for a bubble
	declared := make(map[string]bool)
	for _, file := range files {
		for _, decl := range file.Syntax.Decls {
			var within string
			var self *ast.Ident
			if fn, ok := decl.(*ast.FuncDecl); ok {
				within, self = fn.Name.Name, fn.Name
				declared[within] = !testEntry.MatchString(within)
			} else {
				within = "package level"
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
	return onlyMentionedBy(declared, mentions)
}

// onlyMentionedBy removes from the candidates, until nothing changes, each one
// that nobody mentions or that is mentioned by somebody who is no candidate.
func onlyMentionedBy(candidates map[string]bool, mentions map[string][]string) map[string]bool {
	for changed := true; changed; {
		changed = false
		for name, ok := range candidates { // order-free: the fixed point is one
			if !ok {
				continue
			}
			for _, from := range mentions[name] {
				ok = ok && (from == "" || candidates[from])
			}
			if !ok || len(mentions[name]) == 0 {
				candidates[name], changed = false, true
			}
		}
	}
	return candidates
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
