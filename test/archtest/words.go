package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// avoided are words that pages, comments and texts do not use, with what to write instead
// (CONTRIBUTING.md, "Sentences").
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
			hits = append(hits, "  "+found+": "+word.instead)
		}
	}
	return hits
}

// avoidedInCode returns, by package, the avoided words of the product's files.
func avoidedInCode(tree *Tree) map[string][]string {
	hits := make(map[string][]string)
	for _, file := range tree.Files {
		if !ships(file) {
			continue
		}
		if found := avoidedInFile(tree, file); len(found) > 0 {
			hits[file.Package()] = append(hits[file.Package()], found...)
		}
	}
	return hits
}

// avoidedInFile returns a line for each avoided word of a file's comments and strings.
// The strings hold help texts, errors, logs, warnings and the words of metrics.
func avoidedInFile(tree *Tree, file *File) (hits []string) {
	note := func(pos token.Pos, text string) {
		for _, hit := range avoidedIn(text) {
			hits = append(hits, fmt.Sprintf("  %s:%d: %s", file.Path, tree.Line(pos), strings.TrimSpace(hit)))
		}
	}
	for _, group := range file.Syntax.Comments {
		note(group.Pos(), group.Text())
	}
	ast.Inspect(file.Syntax, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				note(lit.Pos(), text)
			}
		}
		return true
	})
	return hits
}

// ratchet compares the avoided words of packages or pages with the numbers that are
// left. A number only falls: one that is too high is a finding, too.
func ratchet(hits map[string][]string, left map[string]int) (findings []string) {
	for name, found := range hits {
		if n := len(found); n > left[name] {
			findings = append(findings,
				fmt.Sprintf("%s uses words that the rules of sentences avoid, %d times; %d are left:\n%s", name, n, left[name],
					strings.Join(found, "\n")))
		}
	}
	for name, n := range left {
		if now := len(hits[name]); now < n {
			findings = append(findings,
				fmt.Sprintf("%s has %d avoided words left, and its number is %d: lower it", name, now, n))
		}
	}
	slices.Sort(findings)
	return findings
}
