package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/config"
)

var (
	quoted = regexp.MustCompile(`'((?:trivet|trivet-import) [^'\n]+)'`)
	page   = regexp.MustCompile(`\bdocs/([a-z]+\.md)(#[a-z0-9-]+)?`)
	aKey   = regexp.MustCompile(`\b[a-z_]+(?:\.[a-z_]+)+\b`)
	verbed = regexp.MustCompile(`%\[?\d*\]?[a-z]`)

	remedyL = regexp.MustCompile(`^trivet [a-z]+ [a-z-]+$|^trivet [a-z]+ [^'"]*(--|\|)`)
)

// TestHintsNameWhatThereIs: every command, flag, page and key that a text of the program
// names exists: hints, remedies, warnings, help and logs.
func TestHintsNameWhatThereIs(t *testing.T) {
	d := &documented{T: t, roots: programs()}
	texts, pages := 0, 0
	eachLiteral(t, "..", func(at, text string) {
		texts++
		d.page = at
		// a line of doctor's
		if line := verbed.ReplaceAllString(text, "X"); remedyL.MatchString(line) && !strings.Contains(line, "\n") {
			d.called(line)
		}
		for _, found := range quoted.FindAllStringSubmatch(text, -1) {
			d.called(verbed.ReplaceAllString(strings.ReplaceAll(found[1], "--%s", "--help"), "X"))
		}
		for _, found := range page.FindAllStringSubmatch(text, -1) {
			pages++
			body, err := os.ReadFile("../docs/" + found[1])
			if err != nil || found[2] != "" && !strings.Contains(string(body), `id="`+found[2][1:]+`"`) &&
				!slices.ContainsFunc(strings.Split(string(body), "\n"), func(line string) bool {
					return strings.HasPrefix(line, "#") && heading(line) == found[2][1:]
				}) {
				t.Errorf("hint-names-a-page: %s: %s%s: %v", at, found[1], found[2], err)
			}
		}
		for _, key := range aKey.FindAllString(text, -1) {
			d.known(at, key)
		}
	})
	if texts < 3000 || d.commands < 150 || d.keys < 150 || pages < 10 {
		t.Errorf("only %d texts with %d commands, %d keys and %d pages were found", texts, d.commands, d.keys, pages)
	}
}

// known wants a word with dots that begins as a section to be an option or a section.
func (d *documented) known(at, key string) {
	d.Helper()
	first, _, _ := strings.Cut(key, ".")
	sections := config.Sections()
	if !slices.ContainsFunc(sections, func(s config.Section) bool { return s.Name == first }) ||
		slices.Contains([]string{".md", ".json", ".txt", ".db", ".key", ".service"}, filepath.Ext(key)) ||
		// names of events, what was an option, and the group of Cluster API
		slices.Contains([]string{"inspection.ramdisk", "haconfig.kubeconfig", "cluster.x"}, key) {
		return
	}
	d.keys++
	if _, ok := config.Lookup(key); ok ||
		slices.ContainsFunc(sections, func(s config.Section) bool { return s.Name == key }) {
		return
	}
	d.Errorf("hint-names-a-key: %s: there is no key %s", at, key)
}

// heading is the anchor of a heading.
func heading(line string) string {
	line = strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
	return strings.ReplaceAll(strings.Map(func(r rune) rune {
		if r == ' ' || r == '-' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, line), " ", "-")
}

// eachLiteral calls see with every text in the source of the program.
func eachLiteral(t *testing.T, root string, see func(at, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if entry.IsDir() && (slices.Contains([]string{"test", "packaging", "docs", "bin", "dist", "contrib"}, rel) ||
			strings.HasPrefix(entry.Name(), ".") && rel != "." || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if _, imports := n.(*ast.ImportSpec); imports {
				return false
			}
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					see(rel+":"+strconv.Itoa(files.Position(lit.Pos()).Line), text)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
