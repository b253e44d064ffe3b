package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// avoided are words that pages do not use, with what to write instead
// (CONTRIBUTING.md, "Sentences").
var avoided = []struct{ pattern, instead string }{
	{`somebody|someone|nobody|no one|anybody|anyone|whoever`, "name who: the leader, a peer, an operator, a client"},
	{`whatever`, "name the thing, or write \"any\""},
	{`anew`, "again"},
	{`beside`, "next to"},
	{`(?:is|are|was|were) told(?: (?:that|of|to|it|once))`, "reports, notifies, receives: who does what"},
	{`what (?:is|was) (?:kept|asked|wanted|needed) (?:by|of)`, "name it: the record, the request"},
	{`not to be had|none any more`, "say what failed"},
}

// allowed are the hits that a page may still have: texts that other programs or tests
// fix, and pages whose sentences wait to be rewritten. A number only falls.
var allowed = map[string]int{
	"docs/configuration.md": 13, // made from the help texts of package config
	"docs/metrics.md":       7,  // the help texts of the metrics
	"docs/operate.md":       2,  // values of the audit's key who
	"docs/recovery.md":      6,
	"docs/api.md":           1,
}

// TestPagesUsePlainWords reads README.md, ARCHITECTURE.md, SECURITY.md, CONTRIBUTING.md
// and the pages of docs, without fenced blocks.
func TestPagesUsePlainWords(t *testing.T) {
	root := moduleRoot(t)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, name := range []string{"README.md", "ARCHITECTURE.md", "SECURITY.md", "CONTRIBUTING.md"} {
		pages = append(pages, filepath.Join(root, name))
	}
	for _, file := range pages {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		name = filepath.ToSlash(name)
		hits := avoidedIn(string(text))
		if len(hits) > allowed[name] {
			t.Errorf("%s uses words that the rules of sentences avoid, %d times; %d are allowed:\n%s", name, len(hits), allowed[name], strings.Join(hits, "\n"))
		}
	}
}

// avoidedIn returns a line for each avoided word of a page, but for the tables in
// which CONTRIBUTING.md shows what to avoid.
func avoidedIn(text string) (hits []string) {
	text = prose(text)
	if before, after, found := strings.Cut(text, "\n## Sentences\n"); found {
		_, after, _ = strings.Cut(after, "\n## ")
		text = before + after
	}
	for _, word := range avoided {
		for _, found := range regexp.MustCompile(`(?i)\b(?:`+word.pattern+`)\b`).FindAllString(text, -1) {
			hits = append(hits, "  "+found+": "+word.instead)
		}
	}
	return hits
}

// TestAvoidedWordsAreFound: the rule finds each kind, and leaves fences, and the
// examples of CONTRIBUTING.md, alone.
func TestAvoidedWordsAreFound(t *testing.T) {
	got := avoidedIn("Whoever asks is told that it is over.\n```\nnobody\n```\n<!-- anew -->\n## Sentences\nsomebody\n## More\nIt stands beside it, and we are told apart.\n")
	for i, hit := range got {
		got[i], _, _ = strings.Cut(strings.TrimSpace(hit), ":")
	}
	if want := []string{"Whoever", "beside", "is told that"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
