package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// avoided are words that pages, comments and texts of the product do not use, with what
// to write instead (CONTRIBUTING.md, "Sentences").
var avoided = []struct {
	word    *regexp.Regexp
	instead string
}{
	{avoid(`somebody|someone|nobody|no one|anybody|anyone|whoever`),
		"name who: the leader, a peer, an operator, a client"},
	{avoid(`whatever`), "name the thing, or write \"any\""},
	{avoid(`anew`), "again"},
	{avoid(`beside`), "next to"},
	{avoid(`(?:is|are|was|were) told(?: (?:that|of|to|it|once))`), "reports, notifies, receives: who does what"},
	{avoid(`what (?:is|was) (?:kept|asked|wanted|needed) (?:by|of)`), "name it: the record, the request"},
	{avoid(`not to be had|none any more`), "say what failed"},
}

// invented are words that were this house's own: an engineer searches for the standard
// term. No Go file has one in a comment, a string or a part of a name.
var invented = avoid(`acquaintance|crew|errand|farewell|ferry|favours?|indulge|lent|patience|reign|sighting|sulk|turnstile`)

// replicated are the beginnings of refusals that are results in logs of peers, and stay.
var replicated = regexp.MustCompile(`nobody else could lead: |join the host anew|which nobody waits for`)

func avoid(words string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(?:` + words + `)\b`) }

// plain reports whether a file uses plain words: Go, whose words are listed here, and the
// pages at the top and in docs.
func plain(file *File) bool { return file.isGo() && file.Package() != "test/archtest" || kept(file) }

// kept reports whether a file is a page that tells what is, at the top or in docs:
// CHANGELOG.md tells what was.
func kept(file *File) bool {
	return file.isPage() && slices.Contains([]string{".", "docs"}, file.Package()) && file.Path != "CHANGELOG.md"
}

// wordPart is a word of a name in camel case.
var wordPart = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// checkWords finds the avoided words in pages and in the product's comments and strings,
// which are help texts, errors, logs, warnings and the words of metrics, and the invented
// ones in every file, names included. What a page quotes is not judged, nor are the tables
// in which CONTRIBUTING.md shows what to avoid.
func checkWords(file *File, report report) {
	if file.isPage() {
		section := ""
		for i, line := range strings.Split(quoted.ReplaceAllString(prose(file.Source), ""), "\n") {
			if strings.HasPrefix(line, "## ") {
				section = line
			}
			if section != "## Sentences" {
				judgeWords(line, i+1, report)
			}
		}
		return
	}
	read := func(pos token.Pos, text string) {
		if file.ships() {
			judgeWords(text, file.line(pos), report)
		}
		judgeInvented(text, file.line(pos), report)
	}
	for _, group := range file.Syntax.Comments {
		read(group.Pos(), group.Text())
	}
	ast.Inspect(file.Syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
				read(n.Pos(), text)
			}
		case *ast.Ident:
			judgeInvented(strings.Join(wordPart.FindAllString(n.Name, -1), " "), file.line(n.Pos()), report)
		}
		return true
	})
}

func judgeWords(text string, line int, report report) {
	text = replicated.ReplaceAllString(text, "")
	for _, word := range avoided {
		for _, found := range word.word.FindAllString(text, -1) {
			report(line, "%s: %s", found, word.instead)
		}
	}
}

func judgeInvented(text string, line int, report report) {
	for _, found := range invented.FindAllString(text, -1) {
		report(line, "%s: a word of this house's own: write the field's standard term", found)
	}
}
