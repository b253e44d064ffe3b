package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRunsNameTests fails when a row names a test that its package does not have, as
// after a test was renamed: the others of the row might run without what the row needs.
func TestRunsNameTests(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	tests := make(map[string][]string) // by package
	for _, m := range theTable(t) {
		names, read := tests[m.Package]
		if !read {
			files, err := filepath.Glob(filepath.Join("../..", m.Package, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for _, found := range declared.FindAllStringSubmatch(string(text), -1) {
					names = append(names, found[1])
				}
			}
			tests[m.Package] = names
		}
		for _, run := range alternatives(m.Run) {
			pattern, err := regexp.Compile(run)
			if err != nil {
				t.Errorf("%s: %v", m.Name, err)
				continue
			}
			if !matches(pattern, names) {
				t.Errorf("%s: no test of %s is called %s", m.Name, m.Package, run)
			}
		}
	}
}

// alternatives splits a pattern such as ^Test(A|B)$ or A|B into the patterns of which
// each must match.
func alternatives(run string) (all []string) {
	top, _, _ := strings.Cut(run, "/") // the rest names sub-tests
	open, end := strings.IndexByte(top, '('), strings.LastIndexByte(top, ')')
	if open < 0 || end < open || strings.Count(top, "(") > 1 {
		if open < 0 {
			return strings.Split(top, "|")
		}
		return []string{top}
	}
	for one := range strings.SplitSeq(top[open+1:end], "|") {
		all = append(all, top[:open]+one+top[end+1:])
	}
	return all
}

func matches(pattern *regexp.Regexp, names []string) bool {
	for _, name := range names {
		if pattern.MatchString(name) {
			return true
		}
	}
	return false
}

// TestAssertionsNameFiles fails when a row waits for the name of a file that is gone.
func TestAssertionsNameFiles(t *testing.T) {
	file := regexp.MustCompile(`\w+_test\.go`)
	for _, m := range theTable(t) {
		for _, name := range file.FindAllString(m.Assertion, -1) {
			if found, err := filepath.Glob(filepath.Join("../..", m.Package, name)); err != nil || len(found) == 0 {
				t.Errorf("%s: %s has no %s (%v)", m.Name, m.Package, name, err)
			}
		}
	}
}
