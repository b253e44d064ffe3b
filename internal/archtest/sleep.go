package archtest

import (
	"go/ast"
	"strings"
)

// bubbleNote excuses a sleep in a helper that is called only inside a bubble,
// written on the line of the sleep or in the comment of the helper.
const bubbleNote = "in a bubble"

// checkSleep finds time.Sleep in test files outside the function literals
// handed to synctest.Test, where time is virtual and a sleep costs nothing.
func checkSleep(tree *Tree, report *Report) {
	for _, file := range tree.Files {
		if !file.Test() {
			continue
		}
		notes := noteLines(tree, file, bubbleNote)
		for _, decl := range file.Syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Doc != nil && strings.Contains(fn.Doc.Text(), bubbleNote) {
				continue
			}
			checkSleepIn(tree, file, decl, notes, report)
		}
	}
}

func checkSleepIn(tree *Tree, file *File, decl ast.Decl, notes map[int]bool, report *Report) {
	imports := file.Imports()
	ast.Inspect(decl, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		target, name, _ := selected(imports, call.Fun)
		if target == "testing/synctest" && name == "Test" {
			return false // everything handed to it runs in the bubble
		}
		if target == "time" && name == "Sleep" && !notes[tree.Line(call.Pos())] {
			report.Addf(file, call.Pos(), "time.Sleep in real time: use testing/synctest, or wait for the event itself")
		}
		return true
	})
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
