package main

import (
	"bytes"
	"context"
	"fmt"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// changedFiles returns the files below root that differ between a commit and the
// working tree, relative to root, with slashes; also those that are gone, and those
// that git does not track yet. Source that differs in imports and comments alone, such
// as that of a package that moved, is not among them: it changes no verdict.
func changedFiles(ctx context.Context, root, base string) ([]string, error) {
	entries, err := gitList(ctx, root, "diff", "--name-status", "--find-renames", "--relative", "-z", "--end-of-options",
		base, "--")
	if err != nil {
		return nil, err
	}
	files, err := gitList(ctx, root, "ls-files", "--others", "--exclude-standard", "-z")
	if err != nil {
		return nil, err
	}
	for len(entries) > 1 {
		status, before, after := entries[0], entries[1], entries[1]
		entries = entries[2:]
		if strings.HasPrefix(status, "R") && len(entries) > 0 {
			after, entries = entries[0], entries[1:]
		}
		same := false
		if status != "A" && status != "D" {
			if same, err = sameCode(ctx, root, base, before, after); err != nil {
				return nil, err
			}
		}
		if !same {
			files = append(files, after)
		}
	}
	return files, nil
}

// gitList runs a command of git that ends each entry with a zero byte.
func gitList(ctx context.Context, root string, args ...string) ([]string, error) {
	out, err := git(ctx, root, args...)
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }), err
}

func git(ctx context.Context, root string, args ...string) ([]byte, error) {
	var problems bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stderr = root, &problems
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(problems.String()))
	}
	return out, nil
}

// sameCode reports whether a file, which may have moved, has the tokens that it had in
// a commit, but for its imports.
func sameCode(ctx context.Context, root, base, before, after string) (bool, error) {
	now, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(after)))
	if err != nil {
		return false, fmt.Errorf("read a file that changed: %w", err)
	}
	then, err := git(ctx, root, "show", base+":./"+before)
	if err != nil {
		return false, err
	}
	if path.Ext(after) != ".go" {
		return bytes.Equal(then, now), nil
	}
	return slices.Equal(tokens(then), tokens(now)), nil
}

// tokens returns the tokens of a Go file after its imports, without comments. Build
// constraints are comments: the first lines count as they are.
func tokens(source []byte) (out []string) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, "", source, parser.ImportsOnly)
	if err != nil {
		return []string{string(source)}
	}
	for line := range strings.Lines(string(source)) {
		if strings.HasPrefix(line, "//go:build") {
			out = append(out, line)
		}
	}
	end := parsed.Name.End()
	for _, d := range parsed.Decls {
		end = d.End()
	}
	rest := source[fset.Position(end).Offset:]
	var s scanner.Scanner
	s.Init(fset.AddFile("", fset.Base(), len(rest)), rest, nil, 0) // mode 0 skips comments
	for {
		_, tok, literal := s.Scan()
		switch tok {
		case token.EOF:
			return out
		case token.SEMICOLON:
			out = append(out, ";")
		default:
			out = append(out, tok.String()+literal)
		}
	}
}

// affected returns the mutants whose file changed, whose test's package has a file
// that changed, or whose row is not the one that the table had before.
func affected(mutants, before []Mutant, changed []string) (out []Mutant) {
	packages := make(map[string]bool)
	for _, file := range changed {
		dir, _, _ := strings.Cut(path.Dir(file), "/testdata")
		packages[dir] = true
	}
	for _, m := range mutants {
		same := slices.ContainsFunc(before, func(b Mutant) bool { return reflect.DeepEqual(b, m) })
		if !same || slices.Contains(changed, m.File) || packages[path.Clean(m.Package)] {
			out = append(out, m)
		}
	}
	return out
}

// rowsAt returns the rows that the table had at a commit; none where it had no files
// of rows.
func rowsAt(ctx context.Context, root, base string) (rows []Mutant, err error) {
	files, err := gitList(ctx, root, "ls-tree", "--name-only", "-z", "--end-of-options", base, "test/mutants/rows/")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := git(ctx, root, "show", base+":./"+file)
		if err != nil {
			return nil, err
		}
		more, err := parseRows(file, text)
		if err != nil {
			return nil, fmt.Errorf("at %s: %w", base, err)
		}
		rows = append(rows, more...)
	}
	return rows, nil
}
