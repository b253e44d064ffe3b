package labtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link        = regexp.MustCompile(`\]\(([^)\s]*)\)`)
	heading     = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	unanchored  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	pageComment = regexp.MustCompile(`(?s)<!--.*?-->`)
	pageFence   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
)

// TestLinksLead: what a page links to is there, down to the heading, and the index
// names every page.
func TestLinksLead(t *testing.T) {
	root := filepath.Join("..", "..")
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(docs) < 6 {
		t.Fatalf("%d pages, %v", len(docs), err)
	}
	index := plain(t, filepath.Join(root, "docs", "README.md"))
	for _, page := range docs {
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/README.md does not say at which moment one reads %s", name)
		}
	}
	for _, name := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"} {
		docs = append(docs, filepath.Join(root, name))
	}
	for _, page := range docs {
		for _, found := range link.FindAllStringSubmatch(plain(t, page), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(found[1], "#")
			to := page
			if file != "" {
				to = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s: %v", page, found[1], err)
			} else if anchor != "" && !anchors(plain(t, to))[anchor] {
				t.Errorf("%s links to %s: that page has no such heading", page, found[1])
			}
		}
	}
}

// plain is the text of a page without what is no prose.
func plain(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return pageFence.ReplaceAllString(pageComment.ReplaceAllString(string(text), ""), "")
}

// anchors are the names of a page's headings, as forges make them.
func anchors(text string) map[string]bool {
	all := make(map[string]bool)
	for _, found := range heading.FindAllStringSubmatch(text, -1) {
		name := unanchored.ReplaceAllString(strings.ToLower(found[1]), "")
		all[strings.ReplaceAll(name, " ", "-")] = true
	}
	return all
}
