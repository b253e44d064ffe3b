package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// announce prints the version of the release that the tree at root is, and writes
// what CHANGELOG.md says of it to the file notes. It prints and writes nothing
// while there are unreleased changes.
func announce(root, notes string, w io.Writer) error {
	text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return fmt.Errorf("read the changelog: %w", err)
	}
	sections, err := parseChangelog(string(text))
	if err != nil {
		return err
	}
	version := sections[0].version
	if version == "" {
		return nil
	}
	_, body, _ := strings.Cut(string(text), "\n## "+version)
	_, body, _ = strings.Cut(body, "\n") // the date
	body, _, _ = strings.Cut(body, "\n## ")
	if err := os.WriteFile(notes, []byte(strings.Trim(body, "\n")+"\n"), 0o644); err != nil {
		return fmt.Errorf("write the release notes: %w", err)
	}
	if _, err := fmt.Fprintln(w, version); err != nil {
		return fmt.Errorf("print the version: %w", err)
	}
	return nil
}
