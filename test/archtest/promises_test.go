package archtest

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPromisesNameTestsAndMutants: each test, mutant and table of mutants that
// docs/promises.md names exists. A name that ends in "…" is the beginning of several.
func TestPromisesNameTestsAndMutants(t *testing.T) {
	root := moduleRoot(t)
	text, err := os.ReadFile(filepath.Join(root, "docs", "promises.md"))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := wholeTree()
	if err != nil {
		t.Fatal(err)
	}
	tests, tables := testsOf(tree.Files...), mutantTables(t, root)
	rows := 0
	for _, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "---") || cells[1] == " promise " {
			continue
		}
		rows++
		for _, name := range regexp.MustCompile("`(Test[A-Z]\\w*…?)").FindAllStringSubmatch(cells[2], -1) {
			beginning, several := strings.CutSuffix(name[1], "…")
			if !slices.ContainsFunc(tests, func(test string) bool {
				return test == name[1] || several && strings.HasPrefix(test, beginning)
			}) {
				t.Errorf("the row %q names the test %s, which does not exist", strings.TrimSpace(cells[1]), name[1])
			}
		}
		checkMutants(t, cells[1], cells[3], tables)
	}
	if rows < 30 {
		t.Errorf("docs/promises.md has %d rows of promises", rows)
	}
}

// checkMutants looks for the mutants of one cell: names of mutants, or of files of
// the table.
func checkMutants(t *testing.T, promise, cell string, tables map[string]string) {
	t.Helper()
	for _, file := range regexp.MustCompile(`\w+\.diff`).FindAllString(cell, -1) {
		if tables[file] == "" {
			t.Errorf("the row %q names test/mutants/rows/%s, which does not exist", strings.TrimSpace(promise), file)
		}
	}
	if strings.Contains(cell, "see ") {
		return
	}
	all := strings.Join(slices.Collect(maps.Values(tables)), "\n")
	for name := range strings.SplitSeq(strings.TrimSpace(cell), ", ") {
		if name != "" && !strings.Contains(all, "mutant: "+name+"\n") {
			t.Errorf("the row %q names the mutant %q, which is in no table", strings.TrimSpace(promise), name)
		}
	}
}

func testsOf(files ...*File) (names []string) {
	for _, file := range files {
		for fn := range file.funcs() {
			if fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names
}

// mutantTables are the files of rows of mutants, by their names.
func mutantTables(t *testing.T, root string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "test/mutants/rows/*.diff"))
	tables := make(map[string]string)
	for _, file := range files {
		text, readErr := os.ReadFile(file)
		tables[filepath.Base(file)], err = string(text), errors.Join(err, readErr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return tables
}
