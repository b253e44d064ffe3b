package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
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

const standard = "a word of this house's own: write the field's standard term"

// keptWords are uses that other programs fix, by file.
var keptWords = map[string]string{"test/labtest/rom_kernel.go": "what a boot program prints at its end"}

func avoid(words string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(?:` + words + `)\b`) }

// quoted is what a page quotes within a line: a name, an output, the subject of a commit.
var quoted = regexp.MustCompile("`[^`\n]*`")

// avoidedIn returns a line for each avoided word of a page, but for what it quotes and
// for the tables in which CONTRIBUTING.md shows what to avoid.
func avoidedIn(text string) (hits []string) {
	text = quoted.ReplaceAllString(prose(text), "")
	if before, after, found := strings.Cut(text, "\n## Sentences\n"); found {
		_, after, _ = strings.Cut(after, "\n## ")
		text = before + after
	}
	for _, word := range avoided {
		for _, found := range word.word.FindAllString(text, -1) {
			hits = append(hits, found+": "+word.instead)
		}
	}
	return hits
}

// part is a word of a name in camel case.
var part = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// wordsIn returns a line for each word that a file should not have: in the product's
// comments and strings, which are help texts, errors, logs, warnings and the words of
// metrics, the avoided ones; in every file, names included, the invented ones.
func wordsIn(tree *Tree, file *File) (hits []string) {
	note := func(pos token.Pos, found ...string) {
		for _, hit := range found {
			hits = append(hits, fmt.Sprintf("%s:%d: %s", file.Path, tree.Line(pos), hit))
		}
	}
	read := func(pos token.Pos, text string) {
		if ships(file) {
			note(pos, avoidedIn(text)...)
		}
		for _, found := range invented.FindAllString(text, -1) {
			note(pos, found+": "+standard)
		}
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
			if parts := strings.Join(part.FindAllString(n.Name, -1), " "); invented.MatchString(parts) {
				note(n.Pos(), n.Name+": "+standard)
			}
		}
		return true
	})
	return hits
}
