package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLinks follows the links of the repository's own pages.
func TestLinks(t *testing.T) {
	findings, err := Links(moduleRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range findings {
		t.Error(finding)
	}
}

// TestLinksThatLeadNowhere runs Links on a small tree with one fault of each kind.
func TestLinksThatLeadNowhere(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("docs/README.md", "[one](one.md), [it](one.md#two-words), [twice](one.md#two-words-1), [set](one.md#proof)\n")
	write("docs/one.md",
		"# Two `words`!\n\n## Two words\n\n<a id=\"proof\"></a>\n[out](https://example.org/x.md), [code](../main.go), [self](#proof)\n"+
			"```\n[fenced](nowhere.md)\n```\n<!-- [comment](nowhere.md)\n-->\n[gone](nowhere.md), [lost](#lost), [file](../none.go), [other](README.md#none)\n")
	write("docs/two.md", "nobody names this page\n")
	write("docs/testdata/skipped.md", "[gone](nowhere.md)\n")
	write("main.go", "package main\n")
	findings, err := Links(root)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range findings {
		what, _, _ := strings.Cut(f.Message, ":")
		got = append(got, fmt.Sprintf("%s:%d %s", f.File, f.Line, what))
	}
	want := []string{"docs/one.md:12 nowhere.md", "docs/one.md:12 #lost", "docs/one.md:12 ../none.go",
		"docs/one.md:12 README.md#none",
		"docs/README.md:1 two.md is not in the index"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q\nwant  %q", got, want)
	}
}
