package archtest

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxArchitectureLines keeps ARCHITECTURE.md what its first line promises.
const maxArchitectureLines = 180

var update = flag.Bool("update", false, "write the picture in ARCHITECTURE.md again")

// pictureSize is the size of a folder in the picture, in thousands of lines.
var pictureSize = regexp.MustCompile(`(?m)^(\S+) +([0-9.]+)k`)

// TestArchitectureHasThePicture: the picture in ARCHITECTURE.md is the one that is made
// of the source (make picture), and a size in it differs by a tenth, or by 300 lines, at
// most: a change of some lines asks for no other picture.
func TestArchitectureHasThePicture(t *testing.T) {
	file := filepath.Join(moduleRoot(t), "ARCHITECTURE.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := wholeTree()
	if err != nil {
		t.Fatal(err)
	}
	before, got, after, err := pictureIn(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	want := Picture(tree)
	if *update {
		if err := os.WriteFile(file, []byte(before+want+after), 0o644); err != nil {
			t.Fatal(err)
		}
		got = want
	}
	if lines := strings.Count(before+got+after, "\n"); lines > maxArchitectureLines {
		t.Errorf("ARCHITECTURE.md has %d lines; at most %d: the rest belongs into docs/design.md", lines,
			maxArchitectureLines)
	}
	if different := pictureDiffers(got, want); different != "" {
		t.Errorf("the picture in ARCHITECTURE.md is not that of the source (%s): run 'make picture'", different)
	}
}

// pictureDiffers returns the first difference that counts, "" if there is none.
func pictureDiffers(got, want string) string {
	sizes := make(map[string]float64)
	for _, found := range pictureSize.FindAllStringSubmatch(got, -1) {
		sizes[found[1]], _ = strconv.ParseFloat(found[2], 64)
	}
	for _, found := range pictureSize.FindAllStringSubmatch(want, -1) {
		is, _ := strconv.ParseFloat(found[2], 64)
		if off := math.Abs(sizes[found[1]] - is); off > max(0.3, is/10) {
			return fmt.Sprintf("%s has %.1fk lines, and the page says %.1fk", found[1], is, sizes[found[1]])
		}
	}
	left := strings.Split(pictureSize.ReplaceAllString(got, "$1"), "\n")
	right := strings.Split(pictureSize.ReplaceAllString(want, "$1"), "\n")
	for i := range min(len(left), len(right)) {
		if left[i] != right[i] {
			return fmt.Sprintf("%q instead of %q", left[i], right[i])
		}
	}
	if len(left) != len(right) {
		return fmt.Sprintf("%d lines instead of %d", len(left), len(right))
	}
	return ""
}

// TestPicture draws a small house: floors by imports, tests and harnesses left out,
// comments cut to their first clause; and a picture of it that is out of date is found.
func TestPicture(t *testing.T) {
	const module = "github.com/trivet-ha/trivet/"
	tree := NewTree(t.TempDir())
	for name, source := range map[string]string{
		"main.go":            "// Command trivet runs a peer. More.\npackage main\n\nimport _ \"" + module + "app\"\n",
		"app/a.go":           "package app\n\nimport (\n\t_ \"" + module + "fsm\"\n\t_ \"" + module + "internal/pace\"\n)\n",
		"app/doc.go":         "// Package app wires one peer\n// together: New opens it.\npackage app\n",
		"app/x/x.go":         "// Package x is here, in a text that goes on for longer than a phrase in the picture may be wide.\npackage x\n",
		"app/y/y.go":         "// Package y asks each of the hosts, in turn and for as long as anybody wants to know of it.\npackage y\n",
		"fsm/a.go":           "// Package fsm is the state.\npackage fsm\n\n// A comment.\nvar (\n\ta = 1\n\tb = 2\n)\n",
		"fsm/a_test.go":      "// Package fsm tests.\npackage fsm\n",
		"internal/pace/p.go": "// Package pace spaces what is repeated.\npackage pace\n",
		"test/t/t.go":        "// Package t is a harness.\npackage t\n\nimport _ \"" + module + "app\"\n",
	} {
		if err := tree.Add(name, []byte(source)); err != nil {
			t.Fatal(err)
		}
	}
	want := strings.Join([]string{
		"main.go       0.0k  runs a peer", "",
		"app/          0.0k  wires one peer together: New opens it",
		"                    x/ here, in a text that goes on for longer than a phrase …; y/ asks each of the hosts", "",
		"fsm/          0.0k  the state",
		"internal/     0.0k",
		"                    pace/ spaces what is repeated", "",
	}, "\n")
	got := Picture(tree)
	if got != want {
		t.Errorf("the picture is\n%s\nwant\n%s", got, want)
	}
	for stale, says := range map[string]string{
		strings.Replace(want, "0.0k  the state", "0.3k  the state", 1): "",
		strings.Replace(want, "0.0k  the state", "0.4k  the state", 1): "fsm/ has 0.0k lines",
		strings.Replace(want, "the state", "a database", 1):            "a database",
		strings.Replace(want, "; y/ asks each of the hosts", "", 1):    "asks each",
		want + "more\n": `"more" instead of ""`,
	} {
		if got := pictureDiffers(stale, want); got != says && (says == "" || !strings.Contains(got, says)) {
			t.Errorf("%q is said of\n%s\nwant %q", got, stale, says)
		}
	}
}

// TestAssets counts what is neither blank nor comment alone, outside test.
func TestAssets(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"api/web/a.js": "// one\n\nlet a = 1; // b\n/* two\n three */\n  f();\n", "api/web/a.css": "/* one */\np { }\n",
		"api/web/a.html": "<p>\n", "test/uitest/b.js": "f();\n", "api/testdata/c.js": "f();\n",
	} {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if lines, err := Assets(root); lines != 3 || err != nil {
		t.Errorf("%d lines, %v; want 3", lines, err)
	}
}

// maxReadmeColumns is how wide a line of README.md may be: it is read in terminals and
// beside diffs as well.
const maxReadmeColumns = 110

// TestReadmeIsNarrow: no line of README.md is wider than maxReadmeColumns, tables and
// commands included.
func TestReadmeIsNarrow(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(moduleRoot(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for n, line := range strings.Split(string(text), "\n") {
		if wide := utf8.RuneCountInString(line); wide > maxReadmeColumns {
			t.Errorf("README.md:%d has %d columns; at most %d", n+1, wide, maxReadmeColumns)
		}
	}
}
