package archtest

import (
	"bytes"
	"go/ast"
	"go/scanner"
	"go/token"
	"regexp"
	"strings"
	"unicode/utf8"
)

// The bounds of docs/design.md#packages and CONTRIBUTING.md.
const (
	maxFileLines = 500
	maxFuncLines = 70
	maxColumns   = 120 // of a line, a tab counted as one
	closing      = 4   // columns for what closes brackets after a string
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

// checkColumns finds lines that are too long and can be broken. One that goes on only
// because of a string is left: people search for it as it is printed.
func checkColumns(tree *Tree, report *Report) {
	for _, file := range tree.Files {
		if file.Generated() {
			continue
		}
		var left map[int]bool
		for i, line := range bytes.Split(file.Source, []byte("\n")) {
			if columns := utf8.RuneCount(line); columns > maxColumns {
				if left == nil {
					left = longStrings(tree, file)
				}
				if !left[i+1] {
					report.addLine(file, i+1, "%d columns; at most %d", columns, maxColumns)
				}
			}
		}
	}
}

var (
	// operator is a place before a string at which a line can be broken.
	operator = regexp.MustCompile(`,|&&|\|\||\+`)
	literals = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`")
)

// longStrings returns the lines that a raw string crosses, and those on which a string
// reaches beyond the bound and nothing before it is a place to break at.
func longStrings(tree *Tree, file *File) map[int]bool {
	long := make(map[int]bool)
	ast.Inspect(file.Syntax, func(node ast.Node) bool {
		literal, ok := node.(*ast.BasicLit)
		if !ok {
			return true
		}
		at, rows := tree.fset.Position(literal.Pos()), strings.Count(literal.Value, "\n")
		for i := range rows {
			long[at.Line+i], long[at.Line+i+1] = true, true
		}
		before := string(file.Source[at.Offset-at.Column+1 : at.Offset])
		if utf8.RuneCountInString(before+literal.Value)+closing > maxColumns &&
			!operator.MatchString(literals.ReplaceAllString(before, "")) {
			long[at.Line] = true
		}
		return true
	})
	return long
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
