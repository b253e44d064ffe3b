package archtest

import (
	"regexp"
	"strings"
)

// avoided are words that pages do not use, with what to write instead
// (CONTRIBUTING.md, "Sentences").
var avoided = []struct {
	word    *regexp.Regexp
	instead string
}{
	{avoid(`somebody|someone|nobody|no one|anybody|anyone|whoever`), "name who: the leader, a peer, an operator, a client"},
	{avoid(`whatever`), "name the thing, or write \"any\""},
	{avoid(`anew`), "again"},
	{avoid(`beside`), "next to"},
	{avoid(`(?:is|are|was|were) told(?: (?:that|of|to|it|once))`), "reports, notifies, receives: who does what"},
	{avoid(`what (?:is|was) (?:kept|asked|wanted|needed) (?:by|of)`), "name it: the record, the request"},
	{avoid(`not to be had|none any more`), "say what failed"},
}

func avoid(words string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(?:` + words + `)\b`) }

// avoidedIn returns a line for each avoided word of a page, but for the tables in
// which CONTRIBUTING.md shows what to avoid.
func avoidedIn(text string) (hits []string) {
	text = prose(text)
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
