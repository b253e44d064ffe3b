package archtest

import (
	"go/ast"
	"go/scanner"
	"go/token"
	"regexp"
	"strings"
	"unicode/utf8"
)

// The bounds of docs/design.md#packages and CONTRIBUTING.md.
const (
	maxFileLines    = 500
	maxInterface    = 3 // methods
	maxFields       = 15
	maxMethods      = 30
	maxPackageFiles = 40
	maxFolders      = 19
	maxArrows       = 80
	maxFuncLines    = 70
	maxColumns      = 120 // of a line of Go, a tab counted as one
	closing         = 4   // columns for what closes brackets after a string
	maxPageLines    = 180 // of ARCHITECTURE.md, as its first line promises
	maxPageColumns  = 110 // of README.md, which is read in terminals and next to differences
	architecture    = "ARCHITECTURE.md"
	readme          = "README.md"
)

// bounds of the lines of a file and of their columns.
type bounds struct{ lines, columns int }

// bounds returns those of a file, zeros for one whose lines are not counted.
func (f *File) bounds() bounds {
	if f.isGo() && !ast.IsGenerated(f.Syntax) {
		return bounds{maxFileLines, maxColumns}
	}
	return map[string]bounds{architecture: {maxPageLines, 1 << 10}, readme: {1 << 10, maxPageColumns}}[f.Path]
}

// bounded reports whether the lines of a file are counted.
func bounded(file *File) bool { return file.bounds().lines > 0 }

// checkSize counts the lines of a file and of its functions, and the columns of its lines.
// A line that goes on only because of a string is left: people search for it as it is
// printed.
func checkSize(file *File, report report) {
	most, crossed := file.bounds(), make(lines) // by raw strings
	if lines := strings.Count(file.Source, "\n"); lines > most.lines {
		report(1, "%d lines; at most %d, one idea each", lines, most.lines)
	}
	for _, fn := range file.funcs {
		if lines := file.line(fn.End()) - file.line(fn.Pos()) + 1 - tableLines(file, fn); lines > maxFuncLines {
			report(file.line(fn.Pos()), "%s has %d lines; at most %d", fn.Name.Name, lines, maxFuncLines)
		}
	}
	if file.isGo() {
		for literal := range each[*ast.BasicLit](file.Syntax) {
			if strings.Contains(literal.Value, "\n") {
				crossed.add(file, literal)
			}
		}
	}
	for i, line := range strings.Split(file.Source, "\n") {
		columns := utf8.RuneCountInString(line)
		if columns > most.columns && !crossed[i+1] &&
			!(file.isGo() && utf8.RuneCountInString(onlyString.FindString(line))+closing > most.columns) {
			report(i+1, "%d columns; at most %d", columns, most.columns)
		}
	}
}

// tableLines counts the lines inside the tables of a function: composite literals, which
// are read as data, but for the functions in them.
func tableLines(file *File, fn ast.Node) (n int) {
	ast.Inspect(fn, func(node ast.Node) bool {
		literal, ok := node.(*ast.CompositeLit)
		if !ok || len(literal.Elts) < 2 {
			return true
		}
		n += max(0, file.line(literal.End())-file.line(literal.Pos())-1)
		ast.Inspect(literal, func(node ast.Node) bool {
			body, ok := node.(*ast.FuncLit)
			if ok {
				n -= file.line(body.End()) - file.line(body.Pos())
			}
			return !ok
		})
		return false
	})
	return n
}

// onlyString matches the beginning of a line up to the end of a string, without a place
// before it at which the line can be broken.
var onlyString = regexp.MustCompile("^(?:[^\"`,+&|]|[&|][^&|]|" + literal + ")*" + literal)

// literal matches a string on one line.
const literal = "(?:\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`)"

// codeLines counts the lines on which at least part of a token stands; blank
// lines and lines of comment alone do not count.
func codeLines(source string) int {
	file := token.NewFileSet().AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, []byte(source), nil, 0) // mode 0 skips comments
	seen := make(lines)
	for pos, tok, literal := s.Scan(); tok != token.EOF; pos, tok, literal = s.Scan() {
		// A raw string spans lines; a semicolon that the scanner inserts is the line's end.
		for line := range strings.Count(strings.TrimSpace(literal), "\n") + 1 {
			seen[file.Line(pos)+line] = true
		}
	}
	return len(seen)
}
