package archtest

import (
	"bytes"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxArchitectureLines keeps ARCHITECTURE.md what its first line promises.
const maxArchitectureLines = 150

// TestArchitectureIsShortAndWhole: ARCHITECTURE.md is readable in half an hour, and
// its picture names every package of the product, by its last directory, and no
// package that there is not.
func TestArchitectureIsShortAndWhole(t *testing.T) {
	root := moduleRoot(t)
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(text, []byte("\n")); lines > maxArchitectureLines {
		t.Errorf("ARCHITECTURE.md has %d lines; at most %d: the rest belongs into docs/design.md", lines, maxArchitectureLines)
	}
	parts := strings.Split(string(text), "```")
	if len(parts) != 3 {
		t.Fatalf("ARCHITECTURE.md has %d fences, want the one picture", len(parts)-1)
	}
	tree, err := wholeTree()
	if err != nil {
		t.Fatal(err)
	}
	there := make(map[string]bool)
	for _, file := range tree.Files {
		pkg := file.Package()
		for dir := pkg; dir != "."; dir = path.Dir(dir) {
			there[path.Base(dir)] = true
		}
		if pkg == "." || within(pkg, "test") || file.Test() {
			continue
		}
		if name := path.Base(pkg) + "/"; !strings.Contains(parts[1], name) {
			t.Errorf("the picture in ARCHITECTURE.md does not name %s (as %q)", pkg, name)
		}
	}
	for _, found := range regexp.MustCompile(`([a-z0-9-]+)/(?:\s|,|;|$)`).FindAllStringSubmatch(parts[1], -1) {
		if !there[found[1]] {
			t.Errorf("the picture in ARCHITECTURE.md names %s/, which is no package", found[1])
		}
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

// TestStateNamesItsCommands: the package comment of fsm, which groups the commands
// by subject, and those of the packages below it name every command of theirs.
func TestStateNamesItsCommands(t *testing.T) {
	tree, err := wholeTree()
	if err != nil {
		t.Fatal(err)
	}
	comments := make(map[string]string)
	commands := make(map[string][]string)
	count := 0
	for _, file := range tree.Files {
		pkg := file.Package()
		if !within(pkg, "fsm") || file.Test() {
			continue
		}
		comments[pkg] += file.Syntax.Doc.Text()
		for _, decl := range file.Syntax.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "apply") || fn.Type.Params.NumFields() != 2 {
				continue
			}
			if command, ok := fn.Type.Params.List[len(fn.Type.Params.List)-1].Type.(*ast.Ident); ok {
				commands[pkg] = append(commands[pkg], command.Name)
				count++
			}
		}
	}
	if count < 50 {
		t.Fatalf("found %d commands", count)
	}
	for pkg, names := range commands {
		for _, command := range names {
			if !regexp.MustCompile(`\b` + command + `\b`).MatchString(comments[pkg]) {
				t.Errorf("the comment of package %s does not name the command %s", pkg, command)
			}
		}
	}
}
