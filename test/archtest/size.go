package archtest

import (
	"bytes"
	"go/ast"
	"go/scanner"
	"go/token"
	"strings"
)

// The bounds of docs/design.md#packages and CONTRIBUTING.md, in lines.
const (
	maxFileLines = 500
	maxFuncLines = 70
)

func checkFileSize(tree *Tree, report *Report) {
	for _, file := range tree.Files {
		if lines := bytes.Count(file.Source, []byte("\n")); lines > maxFileLines && !file.Generated() {
			report.addLine(file, 1, "%d lines; at most %d, one idea each", lines, maxFileLines)
		}
	}
}

func checkFuncSize(tree *Tree, report *Report) {
	for _, file := range tree.Files {
		if file.Generated() {
			continue
		}
		for fn := range file.funcs() {
			if lines := tree.Line(fn.End()) - tree.Line(fn.Pos()) + 1 - tableLines(tree, fn); lines > maxFuncLines {
				report.Addf(file, fn.Pos(), "%s has %d lines; at most %d", fn.Name.Name, lines, maxFuncLines)
			}
		}
	}
}

// tableLines counts the lines inside the tables of a function: composite literals, which
// are read as data, but for the functions in them.
func tableLines(tree *Tree, fn ast.Node) (n int) {
	ast.Inspect(fn, func(node ast.Node) bool {
		literal, ok := node.(*ast.CompositeLit)
		if !ok || len(literal.Elts) < 2 {
			return true
		}
		n += max(0, tree.Line(literal.End())-tree.Line(literal.Pos())-1)
		ast.Inspect(literal, func(node ast.Node) bool {
			body, ok := node.(*ast.FuncLit)
			if ok {
				n -= tree.Line(body.End()) - tree.Line(body.Pos())
			}
			return !ok
		})
		return false
	})
	return n
}

// codeLines counts the lines on which at least part of a token stands; blank
// lines and lines of comment alone do not count.
func codeLines(source []byte) int {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0) // mode 0 skips comments
	seen := make(map[int]bool)
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return len(seen)
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue // inserted by the scanner, not written
		}
		first := file.Line(pos)
		for line := range strings.Count(literal, "\n") + 1 { // a raw string spans lines
			seen[first+line] = true
		}
	}
}
