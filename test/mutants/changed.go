package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// changedFiles returns the files below root that differ between a commit and the
// working tree, relative to root, with slashes; also those that are gone, and those
// that git does not track yet.
func changedFiles(ctx context.Context, root, base string) ([]string, error) {
	var files []string
	for _, args := range [][]string{
		{"diff", "--name-only", "--no-renames", "--relative", "-z", "--end-of-options", base, "--"},
		{"ls-files", "--others", "--exclude-standard", "-z"},
	} {
		var problems bytes.Buffer
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir, cmd.Stderr = root, &problems
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(problems.String()))
		}
		files = append(files, strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })...)
	}
	return files, nil
}

// affected returns the mutants whose file changed, whose test's package has a file
// that changed, or whose row stands in a table file that changed.
func affected(root string, mutants []Mutant, changed []string) ([]Mutant, error) {
	packages, tables := make(map[string]bool), ""
	for _, file := range changed {
		dir, _, _ := strings.Cut(path.Dir(file), "/testdata")
		packages[dir] = true
		if ok, _ := path.Match("test/mutants/table*.go", file); !ok {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read the rows of a table that changed: %w", err)
		}
		tables += string(text)
	}
	var out []Mutant
	for _, m := range mutants {
		if slices.Contains(changed, m.File) || packages[path.Clean(m.Package)] || strings.Contains(tables, fmt.Sprintf("%q", m.Name)) {
			out = append(out, m)
		}
	}
	return out, nil
}
