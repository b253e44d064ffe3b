package archtest

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	link   = regexp.MustCompile(`\]\(([^)\s]*)\)`)
	scheme = regexp.MustCompile(`^[a-z]+:`)
)

// Links follows every link of the Markdown files below root that stays inside the
// repository: the file it names is there, and so is its anchor. It also wants
// docs/README.md to name every page of docs. Directories that Load skips are
// skipped here too.
func Links(root string) ([]Finding, error) {
	var findings []Finding
	pages := newPages(root)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && skipDir(d.Name()):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".md"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		from, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		findings = append(findings, pages.follow(filepath.ToSlash(from), string(text))...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("walk %s: %w", root, err)
	}
	missing, err := pages.unlisted()
	return append(findings, missing...), err
}

// follow returns the links of one page that lead nowhere.
func (p *pages) follow(from, text string) (findings []Finding) {
	for i, line := range strings.Split(prose(text), "\n") {
		for _, found := range link.FindAllStringSubmatch(line, -1) {
			if scheme.MatchString(found[1]) {
				continue
			}
			if err := p.followOne(from, found[1]); err != nil {
				findings = append(findings,
					Finding{File: from, Line: i + 1, Rule: "links", Message: fmt.Sprintf("%s: %v", found[1], err)})
			}
		}
	}
	return findings
}

func (p *pages) followOne(from, target string) error {
	file, anchor, _ := strings.Cut(target, "#")
	to := from
	if file != "" {
		to = path.Join(path.Dir(from), file)
	}
	if strings.HasSuffix(to, ".md") {
		return p.find(to, anchor)
	}
	if _, err := os.Stat(filepath.Join(p.root, filepath.FromSlash(to))); err != nil {
		return fmt.Errorf("no such file: %w", err)
	}
	return nil
}

// unlisted returns the pages of docs that their index does not name.
func (p *pages) unlisted() (findings []Finding, err error) {
	const index = "docs/README.md"
	text, err := os.ReadFile(filepath.Join(p.root, filepath.FromSlash(index)))
	if err != nil {
		return nil, fmt.Errorf("read the index of docs: %w", err)
	}
	all, err := filepath.Glob(filepath.Join(p.root, "docs", "*.md"))
	if err != nil {
		return nil, fmt.Errorf("list docs: %w", err)
	}
	for _, page := range all {
		name := filepath.Base(page)
		if name != "README.md" && !strings.Contains(string(text), "]("+name) {
			findings = append(findings,
				Finding{File: index, Line: 1, Rule: "links", Message: name + " is not in the index: say when to read it"})
		}
	}
	return findings, nil
}
