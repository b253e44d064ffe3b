package archtest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Module is the import path of the root of the tree.
const Module = "github.com/trivet-ha/trivet"

// Tree is the parsed source of the repository: all Go files whatever their
// build tags, the module nested in it (bench) included, testdata left out.
type Tree struct {
	Root  string // directory in which the go command resolves imports
	Files []*File
	fset  *token.FileSet
	tests *waitingTests // of all Files; nil until it is asked for
}

// File is one parsed source file.
type File struct {
	Path   string // slash-separated, relative to the root
	Source []byte
	Syntax *ast.File
}

// NewTree returns an empty tree whose imports are resolved in root.
func NewTree(root string) *Tree {
	return &Tree{Root: root, fset: token.NewFileSet()}
}

// Load reads the tree below root. The error names every file that does not parse.
func Load(root string) (*Tree, error) {
	tree := NewTree(root)
	var broken []error
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != root && skipDir(d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		broken = append(broken, tree.Add(filepath.ToSlash(rel), source))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("walk %s: %w", root, err)
	}
	return tree, errors.Join(broken...)
}

func skipDir(name string) bool {
	return name == "testdata" || name == "vendor" || name == "node_modules" ||
		strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

// Add parses one file into the tree.
func (t *Tree) Add(name string, source []byte) error {
	syntax, err := parser.ParseFile(t.fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse: %w", err)
	}
	t.tests = nil
	t.Files = append(t.Files, &File{Path: name, Source: source, Syntax: syntax})
	return nil
}

// Line returns the line of pos in its file.
func (t *Tree) Line(pos token.Pos) int { return t.fset.Position(pos).Line }

// Package returns the directory of the file relative to the root, "." for the
// root itself: the name under which the house knows the package.
func (f *File) Package() string { return path.Dir(f.Path) }

// Test reports whether the file is compiled only into a test.
func (f *File) Test() bool { return strings.HasSuffix(f.Path, "_test.go") }

// Generated reports whether a program wrote the file.
func (f *File) Generated() bool { return ast.IsGenerated(f.Syntax) }

// funcs iterates over the functions and methods that the file declares.
func (f *File) funcs() iter.Seq[*ast.FuncDecl] {
	return func(yield func(*ast.FuncDecl) bool) {
		for _, decl := range f.Syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && !yield(fn) {
				return
			}
		}
	}
}

// Imports maps the name under which each import is known in the file to its
// path. The name of an import without one is guessed from its path, which is
// right for every package that a rule asks about.
func (f *File) Imports() map[string]string {
	imports := make(map[string]string)
	for _, spec := range f.Syntax.Imports {
		target := importPath(spec)
		name := path.Base(target)
		if isVersion(name) {
			name = path.Base(path.Dir(target))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = target
	}
	return imports
}

func importPath(spec *ast.ImportSpec) string {
	target, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value // the parser has refused such a file already
	}
	return target
}

func isVersion(element string) bool {
	digits, ok := strings.CutPrefix(element, "v")
	_, err := strconv.Atoi(digits)
	return ok && err == nil
}

// selected resolves expr, written as name.Sel, to the import path and the
// selected name; ok is false when name is no import of the file.
func selected(imports map[string]string, expr ast.Expr) (target, name string, ok bool) {
	sel, isSelector := expr.(*ast.SelectorExpr)
	if !isSelector {
		return "", "", false
	}
	ident, isIdent := sel.X.(*ast.Ident)
	if !isIdent {
		return "", "", false
	}
	target, ok = imports[ident.Name]
	return target, sel.Sel.Name, ok
}

// within reports whether pkg is parent or lies below it.
func within(pkg, parent string) bool {
	return pkg == parent || strings.HasPrefix(pkg, parent+"/")
}

// Report collects the findings of one rule.
type Report struct {
	rule     string
	tree     *Tree
	findings []Finding
}

// Addf records a violation at pos in file.
func (r *Report) Addf(file *File, pos token.Pos, format string, args ...any) {
	r.addLine(file, r.tree.Line(pos), format, args...)
}

func (r *Report) addLine(file *File, line int, format string, args ...any) {
	r.findings = append(r.findings, Finding{
		File: file.Path, Line: line, Rule: r.rule, Message: fmt.Sprintf(format, args...),
	})
}
