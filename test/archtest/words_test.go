package archtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// leftInCode are the avoided words that packages may have in comments and strings.
var leftInCode = map[string]int{
	"fsm/membership":    2, // refusals, whose texts are part of the replicated results
	"fsm/introspection": 1,
}

// TestPagesUsePlainWords reads the pages at the top and those of docs, without fenced
// blocks.
func TestPagesUsePlainWords(t *testing.T) {
	root := moduleRoot(t)
	pages := []string{"README.md", "ARCHITECTURE.md", "SECURITY.md", "CONTRIBUTING.md"}
	docs, err := os.ReadDir(filepath.Join(root, "docs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range docs {
		if strings.HasSuffix(page.Name(), ".md") {
			pages = append(pages, "docs/"+page.Name())
		}
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, hit := range avoidedIn(string(text)) {
			t.Errorf("%s: %s", page, hit)
		}
	}
}

// TestCodeUsesPlainWords reads every Go file.
func TestCodeUsesPlainWords(t *testing.T) {
	tree, err := wholeTree()
	if err != nil {
		t.Fatal(err)
	}
	hits := make(map[string][]string)
	for _, file := range tree.Files {
		if file.Package() != "test/archtest" && keptWords[file.Path] == "" {
			hits[file.Package()] = append(hits[file.Package()], wordsIn(tree, file)...)
		}
	}
	for pkg, found := range hits {
		if len(found) != leftInCode[pkg] {
			t.Errorf("%d words in %s that the rules of sentences avoid, want %d:\n%s", len(found), pkg, leftInCode[pkg],
				strings.Join(found, "\n"))
		}
	}
}

// TestWordsAreFound: in each kind of place; a test may use the avoided ones, and a page's
// fences, and the examples of CONTRIBUTING.md, are left alone.
func TestWordsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		want   []string
	}{
		"fsm/a.go": {"package fsm\n\n// A is for whoever asks.\nconst A = \"nobody asks\" // anew\n",
			[]string{"3: whoever", "4: anew", "4: nobody"}},
		"fsm/b.go": {"package fsm\n\n// The crew waits.\nvar newCrew = \"sulk\"\n\nvar silent int // a talent\n",
			[]string{"3: crew", "4: newCrew", "4: sulk"}},
		"fsm/a_test.go": {"package fsm\n\n// somebody's crew\n", []string{"3: crew"}},
	} {
		tree := NewTree(t.TempDir())
		if err := tree.Add(name, []byte(c.source)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, hit := range wordsIn(tree, tree.Files[0]) {
			got = append(got, strings.Join(strings.SplitN(strings.TrimPrefix(hit, name+":"), ":", 3)[:2], ":"))
		}
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("found %q in %s, want %q", got, name, c.want)
		}
	}
	got := avoidedIn(
		"Whoever asks is told that it is over.\n```\nnobody\n```\n<!-- anew -->\n## Sentences\nsomebody\n## More\nIt stands beside it, and we are told apart.\n")
	for i, hit := range got {
		got[i], _, _ = strings.Cut(hit, ":")
	}
	if want := []string{"Whoever", "beside", "is told that"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
