package labtest

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/test/testenv"
)

// mayStand is how many blocks, of all pages together, may say that they are not
// run. It is there to be lowered: whoever raises it explains the next one.
const mayStand = 16

// pages reads what users read, in the order in which the test runs it: hosts are
// installed first, and removed last; README.md comes after that.
func pages(t *testing.T) (all []*document) {
	t.Helper()
	root := filepath.Join("..", "..")
	found, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(found) < 6 {
		t.Fatalf("%d pages, %v", len(found), err)
	}
	rank := func(path string) int {
		switch filepath.Base(path) {
		case "install.md":
			return 0
		case "uninstall.md":
			return 2
		case "README.md":
			if filepath.Base(filepath.Dir(path)) != "docs" {
				return 3
			}
		}
		return 1
	}
	found = append(found, filepath.Join(root, "README.md"))
	for turn := range 4 {
		for _, path := range found {
			if rank(path) != turn {
				continue
			}
			text, err := os.ReadFile(path)
			testenv.Must(t, err)
			name, err := filepath.Rel(root, path)
			testenv.Must(t, err)
			d, err := parse(name, string(text))
			testenv.Must(t, err)
			all = append(all, d)
		}
	}
	return all
}

// TestBlocksAreRun: nearly every block of the pages is run by TestDocuments.
func TestBlocksAreRun(t *testing.T) {
	run, not := 0, 0
	for _, d := range pages(t) {
		for _, s := range d.steps {
			if s.why != "" {
				not++
				t.Logf("%s:%d is not run: %s", d.name, s.line, s.why)
			} else if !s.hidden {
				run++
			}
		}
	}
	t.Logf("%d blocks are run, %d are not", run, not)
	if not > mayStand {
		t.Errorf("%d blocks say that they are not run, more than %d", not, mayStand)
	}
	if run < 2*not {
		t.Errorf("%d blocks are run and %d are not: that is the exception no more", run, not)
	}
}

func TestParse(t *testing.T) {
	d, err := parse("page.md", "# x\n\n```sh\na\n  b\n```\n\n<!-- run: h2 h3 expect 4 -->\n\n  ```sh\n  c\n  ```\n"+
		"<!-- meanwhile: h3\nd\n-->\n```\nnot a shell\n```\n<!-- run: no it needs a tape -->\n```sh\ne\n```\n")
	testenv.Must(t, err)
	want := []step{
		{line: 3, hosts: []string{"h1"}, script: "a\n  b\n"},
		{line: 10, hosts: []string{"h2", "h3"}, exit: 4, script: "c\n"},
		{line: 13, hosts: []string{"h3"}, script: "d\n", hidden: true},
		{line: 20, hosts: []string{"h1"}, script: "e\n", why: "it needs a tape"},
	}
	if !reflect.DeepEqual(d.steps, want) {
		t.Errorf("got  %+v\nwant %+v", d.steps, want)
	}
	for text, complaint := range map[string]string{
		"<!-- run: h2 -->\ntext\n":              "page.md:1: no block of sh follows",
		"<!-- run: no -->\n```sh\na\n```\n":     "page.md:1: write '<!-- run: no REASON -->'",
		"<!-- run: h2 wild -->\n":               `page.md:1: write '<!-- run: [HOST…] [expect EXIT] -->' or '<!-- run: no REASON -->', not "wild"`,
		"<!-- run: expect much -->\n":           "page.md:1: expect: ",
		"<!-- run: expect 256 -->\n":            "page.md:1: expect: ",
		"\n```sh\na\n":                          "page.md:2: this block does not end",
		"<!-- meanwhile: h1\na\n":               "page.md:1: this comment has no line '-->'",
		"<!-- meanwhile: no it rains\na\n-->\n": "page.md:1: write '<!-- meanwhile: HOST…'",
	} {
		if _, err := parse("page.md", text); err == nil || !strings.Contains(err.Error(), complaint) {
			t.Errorf("%q: %v, want %q", text, err, complaint)
		}
	}
}
