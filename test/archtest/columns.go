package archtest

import (
	"bytes"
	"go/scanner"
	"go/token"
	"strings"
	"unicode/utf8"
)

// maxColumns bounds a line, a tab counted as one column as most linters do.
const maxColumns = 120

// closing is the room for what closes brackets after a string.
const closing = 4

// checkColumns finds lines that are too long and can be broken. One that goes on only
// because of a string is left: people search for it as it is printed.
func checkColumns(tree *Tree, report *Report) {
	for _, file := range tree.Files {
		if file.Generated() {
			continue
		}
		var unbroken map[int]bool
		for i, line := range bytes.Split(file.Source, []byte("\n")) {
			if len(line) <= maxColumns || utf8.RuneCount(line) <= maxColumns {
				continue
			}
			if unbroken == nil {
				unbroken = longStrings(file.Source)
			}
			if !unbroken[i+1] {
				report.addLine(file, i+1, "%d columns; at most %d", utf8.RuneCount(line), maxColumns)
			}
		}
	}
}

// longStrings returns the lines that a raw string crosses, and those on which a string
// reaches beyond the bound and no comma or operator before it is a place to break at.
func longStrings(source []byte) map[int]bool {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	long, breakable := make(map[int]bool), make(map[int]bool)
	for {
		pos, tok, literal := s.Scan()
		at := file.Position(pos)
		switch tok {
		case token.EOF:
			return long
		case token.COMMA, token.LAND, token.LOR, token.ADD:
			breakable[at.Line] = true
		case token.STRING:
			rows := strings.Count(literal, "\n")
			for i := range rows {
				long[at.Line+i], long[at.Line+i+1] = true, true
			}
			begin := utf8.RuneCount(source[at.Offset-at.Column+1 : at.Offset])
			if rows == 0 && begin+utf8.RuneCountInString(literal)+closing > maxColumns && !breakable[at.Line] {
				long[at.Line] = true
			}
		}
	}
}
