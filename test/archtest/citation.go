package archtest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// cited matches a page of the repository as comments and messages name it.
var cited = regexp.MustCompile(`(?:docs/[\w-]+|(?:[\w-]+/)*DESIGN)\.md(?:#[\w-]*)?`)

// checkCitations follows every citation in comments and messages to an existing
// page and anchor.
func checkCitations(tree *Tree, report *Report) {
	pages := newPages(tree.Root)
	for _, file := range tree.Files {
		if file.Test() && file.Package() == "test/archtest" {
			continue // its fixtures hold citations that lead nowhere
		}
		for i, line := range strings.Split(string(file.Source), "\n") {
			if !strings.Contains(line, ".md") {
				continue // the expression matches none of the other lines, slowly
			}
			for _, found := range cited.FindAllString(line, -1) {
				page, anchor, _ := strings.Cut(found, "#")
				if !strings.Contains(page, "/") { // the package's own
					page = path.Join(file.Package(), page)
				}
				if err := pages.find(page, anchor); err != nil {
					report.addLine(file, i+1, "%s: %v", found, err)
				}
			}
		}
	}
}

// pages are the Markdown files of the repository with their anchors, read when
// they are asked for. They are not safe for concurrent use.
type pages struct {
	root string
	read map[string]page
}

type page struct {
	anchors map[string]bool
	err     error
}

func newPages(root string) *pages { return &pages{root: root, read: make(map[string]page)} }

// find returns an error unless the file is there and, if anchor is not empty, has
// that anchor. name is slash-separated and relative to the root.
func (p *pages) find(name, anchor string) error {
	known, ok := p.read[name]
	if !ok {
		text, err := os.ReadFile(filepath.Join(p.root, filepath.FromSlash(name)))
		known = page{anchors: anchorsOf(string(text)), err: err}
		p.read[name] = known
	}
	switch {
	case known.err != nil:
		return fmt.Errorf("no such page: %w", known.err)
	case anchor != "" && !known.anchors[anchor]:
		return fmt.Errorf("%s has no anchor %q", name, anchor)
	}
	return nil
}

var (
	heading    = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	explicit   = regexp.MustCompile(`<a id="([\w-]+)"></a>`)
	notInNames = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchorsOf returns the explicit anchors of a page and the names that forges give
// its headings.
func anchorsOf(text string) map[string]bool {
	text = prose(text)
	anchors := make(map[string]bool)
	for _, found := range heading.FindAllStringSubmatch(text, -1) {
		name := strings.ReplaceAll(notInNames.ReplaceAllString(strings.ToLower(found[1]), ""), " ", "-")
		for n, unique := 1, name; ; n++ {
			if !anchors[unique] {
				anchors[unique] = true
				break
			}
			unique = fmt.Sprintf("%s-%d", name, n) // the second heading of one name
		}
	}
	for _, found := range explicit.FindAllStringSubmatch(text, -1) {
		anchors[found[1]] = true
	}
	return anchors
}

var (
	comment = regexp.MustCompile(`(?s)<!--.*?-->`)
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
)

// prose returns a page without its comments and fenced blocks, line by line where
// it was: what is removed leaves its line ends.
func prose(text string) string {
	lineEnds := func(cut string) string { return strings.Repeat("\n", strings.Count(cut, "\n")) }
	return fence.ReplaceAllStringFunc(comment.ReplaceAllStringFunc(text, lineEnds), lineEnds)
}
