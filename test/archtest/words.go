package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// avoid is words with what to write instead.
type avoid struct {
	words   *regexp.Regexp
	instead string
}

// avoided are words that pages, comments and texts of the product do not use
// (CONTRIBUTING.md, "Sentences").
var avoided = []avoid{
	{words(`somebody|someone|nobody|no one|anybody|anyone|whoever`),
		"name who: the leader, a peer, an operator, a client"},
	{words(`whatever`), "name the thing, or write \"any\""},
	{words(`anew`), "again"},
	{words(`beside`), "next to"},
	{words(`(?:is|are|was|were) told(?: (?:that|of|to|it|once))`), "reports, notifies, receives: who does what"},
	{words(`what (?:is|was) (?:kept|asked|wanted|needed) (?:by|of)`), "name it: the record, the request"},
	{words(`not to be had|none any more`), "say what failed"},
}

// invented are words that were this house's own: an engineer searches for the standard
// term. No Go file has one in a comment, a string or a part of a name.
var invented = []avoid{
	{words(`acquaintance|crew|errand|farewell|ferry|favours?|indulge|lent|patience|reign|sighting|sulk|turnstile`),
		"write the field's standard term"},
}

// replicated are the beginnings of refusals that are results in logs of peers, and stay.
var replicated = regexp.MustCompile(`nobody else could lead: |join the host anew|which nobody waits for`)

func words(any string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(?:` + any + `)\b`) }

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

// shown is the section of CONTRIBUTING.md whose tables show what to avoid.
var shown = regexp.MustCompile(`(?ms)^## Sentences$.*?(?:^## |\z)`)

// checkWords finds the avoided words. What a page quotes is not judged.
func checkWords(file *File, report report) {
	judge := func(line int, text string, all []avoid) {
		text = replicated.ReplaceAllString(text, "")
		for _, a := range all {
			for _, found := range a.words.FindAllString(text, -1) {
				report(line, "%s: %s", found, a.instead)
			}
		}
	}
	if file.isPage() {
		for i, line := range strings.Split(without(file.Source, comment, fence, quoted, shown), "\n") {
			judge(i+1, line, avoided)
		}
		return
	}
	inTexts := invented
	if file.ships() {
		inTexts = slices.Concat(invented, avoided)
	}
	for _, group := range file.Syntax.Comments {
		judge(file.line(group.Pos()), group.Text(), inTexts)
	}
	for literal := range each[*ast.BasicLit](file.Syntax) {
		if text, err := strconv.Unquote(literal.Value); literal.Kind == token.STRING && err == nil {
			judge(file.line(literal.Pos()), text, inTexts)
		}
	}
	for ident := range each[*ast.Ident](file.Syntax) {
		judge(file.line(ident.Pos()), strings.Join(wordPart.FindAllString(ident.Name, -1), " "), invented)
	}
}
