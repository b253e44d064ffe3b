package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// sourceURL is where links lead whose target no package contains.
const sourceURL = "https://github.com/trivet-ha/trivet/blob/main/"

// introduction is the name of the repository's README.md in a package, where
// README.md is the index of docs.
const introduction = "introduction.md"

// pages maps the documents of the repository to their names in the packages.
func pages(root string) (map[string]string, error) {
	found, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return nil, fmt.Errorf("list documents: %w", err)
	}
	names := map[string]string{"README.md": introduction, "CHANGELOG.md": "CHANGELOG.md"}
	for _, file := range found {
		names["docs/"+filepath.Base(file)] = filepath.Base(file)
	}
	return names, nil
}

// linkTarget matches the target of a link in Markdown, without its anchor.
var linkTarget = regexp.MustCompile(`\]\(([^()#\s]+)`)

// relinked makes the links of a page lead to where the packages have their
// targets. from is the page's path in the repository.
func relinked(text, from string, names map[string]string) string {
	return linkTarget.ReplaceAllStringFunc(text, func(link string) string {
		target := strings.TrimPrefix(link, "](")
		if strings.Contains(target, ":") { // a URL
			return link
		}
		target = path.Join(path.Dir(from), target)
		if name, packaged := names[target]; packaged {
			return "](" + name
		}
		return "](" + sourceURL + target
	})
}

// writePages writes the documents for the packages into a directory.
func writePages(root, dir string) error {
	names, err := pages(root)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write documents: %w", err)
	}
	for from, name := range names {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(from)))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(relinked(string(text), from, names)), 0o644)
		}
		if err != nil {
			return fmt.Errorf("write documents: %w", err)
		}
	}
	return nil
}
