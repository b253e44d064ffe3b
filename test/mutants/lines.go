package main

import (
	"go/scanner"
	"go/token"
	"strings"
)

// onAsManyLines returns the new text of a mutant on as many lines as the old one has,
// without its comments where it has more, so that nothing behind it moves: what
// importers of a package see has line numbers in it. The text stays as it is where that
// cannot be.
func onAsManyLines(source, before, after string) string {
	want := strings.Count(before, "\n")
	if strings.Count(after, "\n") > want {
		after = joined(after)
	}
	missing := want - strings.Count(after, "\n")
	at := strings.Index(source, before)
	end := at + len(before)
	switch {
	case missing <= 0:
		return after
	case at == 0 || source[at-1] == '\n':
		return strings.Repeat("\n", missing) + after
	case end == len(source) || source[end] == '\n' || strings.HasSuffix(before, "\n"):
		return after + strings.Repeat("\n", missing)
	}
	return after
}

// joined returns a piece of Go on one line, but for what strings hold.
func joined(text string) string {
	var b strings.Builder
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile("", files.Base(), len(text)), []byte(text), nil, 0)
	for {
		at, tok, literal := s.Scan()
		switch {
		case tok == token.EOF:
			return b.String()
		case tok == token.SEMICOLON && literal == "\n" && files.Position(at).Offset == len(text):
			continue // the scanner's own at the end, where the text may stop within a statement
		case tok == token.SEMICOLON:
			literal = ";"
		case literal == "":
			literal = tok.String()
		}
		b.WriteString(literal + " ")
	}
}
