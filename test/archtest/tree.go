package archtest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Module is the import path of the root of the tree.
const Module = "github.com/trivet-ha/trivet"

// Tree is the source of the repository: all Go files whatever their build tags, those
// of nested modules included, and pages, scripts, styles and mutants; testdata left out.
type Tree struct {
	Root    string   // directory in which the go command resolves imports
	Folders []string // at the top, which a newcomer sees first
	Files   []*File  // of Go
	texts   map[string]*File
	fset    *token.FileSet

	// What rules look up in other files.
	documents map[string]string // comments of packages
	keys      map[string]bool   // of the log, as keysPage documents them
	tests     strings.Builder   // each with its package, between line ends
	mutants   string            // their tables

	// What several files show together, found when a rule asks first: all are added before.
	virtual  func() map[*File]lines                    // what runs in bubbles
	judged   func() map[string]bool                    // packages that must be hermetic
	starting func() map[name]bool                      // functions that start a process
	types    func() (*types.Info, map[*ast.File]error) // of all but tests, with errors by first file
}

// File is one source file.
type File struct {
	Path   string // slash-separated, relative to the root
	Source string
	Syntax *ast.File // nil unless it is Go

	tree    *Tree
	funcs   []*ast.FuncDecl // functions and methods that it declares
	anchors map[string]bool // of a page
}

// NewTree returns an empty tree whose imports are resolved in root.
func NewTree(root string) *Tree {
	t := &Tree{Root: root, fset: token.NewFileSet(), texts: make(map[string]*File), mutants: "\n",
		documents: make(map[string]string)}
	t.virtual = sync.OnceValue(t.findVirtual)
	t.judged = sync.OnceValue(t.findJudged)
	t.starting = sync.OnceValue(t.findStarting)
	t.types = sync.OnceValues(t.findTypes)
	return t
}

// Load reads the tree below root. The error names every file that does not parse.
func Load(root string) (*Tree, error) {
	tree, dir := NewTree(root), os.DirFS(root)
	var broken []error
	err := fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && skipped.MatchString(name):
			return fs.SkipDir
		case d.IsDir() && name != "." && !strings.Contains(name, "/"):
			tree.Folders = append(tree.Folders, name)
		}
		if d.IsDir() || !slices.Contains([]string{".go", ".md", ".js", ".css", ".diff"}, path.Ext(name)) {
			return nil
		}
		source, err := fs.ReadFile(dir, name)
		broken = append(broken, err, tree.Add(name, string(source)))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("walk %s: %w", root, err)
	}
	return tree, errors.Join(broken...)
}

// skipped matches a folder that is no part of the source: data of tests, what builds
// make, others' modules.
var skipped = regexp.MustCompile(`^(?:bin|dist)$|(?:^|/)(?:testdata|vendor|node_modules|[._][^/]*)$`)

// Add takes one file into the tree and parses it if it is Go.
func (t *Tree) Add(name, source string) (err error) {
	file := &File{Path: name, Source: source, tree: t}
	if path.Ext(name) != ".go" {
		t.texts[name] = file
		file.anchors = anchorsOf(source)
		switch {
		case name == keysPage:
			t.keys = keysOf(source)
		case path.Ext(name) == ".diff":
			t.mutants += source
		}
		return nil
	}
	file.Syntax, err = parser.ParseFile(t.fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse: %w", err)
	}
	t.Files = append(t.Files, file)
	file.index()
	return nil
}

// index notes what rules look up: the file's functions, its variables, its tests, and the
// comment of its package, which is that of the first file that has one.
func (f *File) index() {
	t, pkg := f.tree, f.Package()
	if !f.test() && t.documents[pkg] == "" {
		t.documents[pkg] = f.Syntax.Doc.Text()
	}
	for _, d := range f.declared() {
		if fn, ok := d.node.(*ast.FuncDecl); ok {
			f.funcs = append(f.funcs, fn)
			if f.test() && fn.Recv == nil && strings.HasPrefix(d.Name, "Test") {
				fmt.Fprintf(&t.tests, "\n%s.%s\n", pkg, d.Name)
			}
		}
	}
}

// filesOf returns the files of Go for which something holds.
func (t *Tree) filesOf(holds func(*File) bool) []*File {
	return slices.DeleteFunc(slices.Clone(t.Files), func(f *File) bool { return !holds(f) })
}

// all returns the files of Go and the other texts.
func (t *Tree) all() []*File { return slices.Concat(t.Files, slices.Collect(maps.Values(t.texts))) }

// Package returns the directory of the file relative to the root, "." for the
// root itself: the name under which the house knows the package.
func (f *File) Package() string { return path.Dir(f.Path) }

func (f *File) isGo() bool   { return f.Syntax != nil }
func (f *File) isPage() bool { return path.Ext(f.Path) == ".md" }

// test reports whether the file is compiled only into a test.
func (f *File) test() bool { return strings.HasSuffix(f.Path, "_test.go") }

// written reports whether the file is Go that a person wrote, and no test.
func (f *File) written() bool { return f.isGo() && !f.test() && !ast.IsGenerated(f.Syntax) }

// ships reports whether a file is the product's: written by hand, no test, and outside
// test, where the harnesses are.
func (f *File) ships() bool { return f.written() && !within(f.Package(), "test") }

// line returns the line of pos.
func (f *File) line(pos token.Pos) int { return f.tree.fset.Position(pos).Line }

// text returns the source of a node, in which patterns look: gofmt writes each thing in
// one way, and packages are known by their own names.
func (f *File) text(node ast.Node) string {
	return f.Source[f.tree.fset.Position(node.Pos()).Offset:f.tree.fset.Position(node.End()).Offset]
}

// each iterates over the nodes of one type in root, an outer one before those inside it.
func each[N ast.Node](root ast.Node) iter.Seq[N] {
	return func(yield func(N) bool) {
		for node := range ast.Preorder(root) {
			if n, ok := node.(N); ok && !yield(n) {
				return
			}
		}
	}
}

// declared is a name that a file declares at its top level.
type declared struct {
	*ast.Ident
	kind     token.Token // FUNC, TYPE, CONST or VAR
	node     ast.Node    // a function's declaration, or the others' spec
	receiver string      // of a method, the name of its type
	doc      string      // its comment; of constants and variables, also their group's
}

var identifier = regexp.MustCompile(`\w+`)

// declared returns the names that the file declares, in its order.
func (f *File) declared() (all []declared) {
	for _, decl := range f.Syntax.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			fn := declared{Ident: d.Name, kind: token.FUNC, node: d, doc: d.Doc.Text()}
			if d.Recv != nil {
				fn.receiver = identifier.FindString(f.text(d.Recv.List[0].Type))
			}
			all = append(all, fn)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec: // in a group, each is an idea of its own
					doc := s.Doc.Text()
					if !d.Lparen.IsValid() {
						doc += d.Doc.Text()
					}
					all = append(all, declared{Ident: s.Name, kind: token.TYPE, node: s, doc: doc})
				case *ast.ValueSpec:
					for _, name := range s.Names {
						doc := d.Doc.Text() + s.Doc.Text() + s.Comment.Text()
						all = append(all, declared{Ident: name, kind: d.Tok, node: s, doc: doc})
					}
				}
			}
		}
	}
	return all
}

// imports maps the name under which each import is known in the file to its path. The
// name of an import without one is guessed from its path, which is right for every
// package that a rule asks about.
func (f *File) imports() map[string]string {
	imports := make(map[string]string)
	for _, spec := range f.Syntax.Imports {
		target := importPath(spec)
		name := path.Base(version.ReplaceAllString(target, ""))
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = target
	}
	return imports
}

// version ends the import path of a module's later major version.
var version = regexp.MustCompile(`/v\d+$`)

func importPath(spec *ast.ImportSpec) string {
	target, _ := strconv.Unquote(spec.Path.Value) // the parser refuses a file in which this fails
	return target
}

// lines are some lines of a file.
type lines map[int]bool

// add adds the lines on which a node of a file stands.
func (l lines) add(file *File, node ast.Node) {
	for line := file.line(node.Pos()); line <= file.line(node.End()); line++ {
		l[line] = true
	}
}

// noted returns the lines that a comment with the note excuses: its own, the one right
// below, and all of the function that it documents.
func (f *File) noted(note string) lines {
	excused := make(lines)
	for _, group := range f.Syntax.Comments {
		for _, comment := range group.List {
			if strings.Contains(comment.Text, note) {
				excused[f.line(comment.Pos())], excused[f.line(group.End())+1] = true, true
			}
		}
	}
	for _, fn := range f.funcs {
		if strings.Contains(fn.Doc.Text(), note) {
			excused.add(f, fn)
		}
	}
	return excused
}

// within reports whether pkg is parent or lies below it.
func within(pkg, parent string) bool {
	return pkg == parent || strings.HasPrefix(pkg, parent+"/")
}

// exported matches a package and the file that has its types.
var exported = regexp.MustCompile(`(?m)^(.+)\t(.+)$`)

// findTypes type-checks each package, as far as errors allow, which it returns by the
// first file of a package. What fsm imports has its types, of which the go command
// compiles what is not cached; for the others only their own declarations are known.
func (t *Tree) findTypes() (*types.Info, map[*ast.File]error) {
	list := exec.Command("go", "list", "-e", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", "./fsm/...")
	list.Dir = t.Root
	out, listErr := list.Output()
	exports := make(map[string]string)
	for _, found := range exported.FindAllStringSubmatch(string(out), -1) {
		exports[found[1]] = found[2]
	}
	syntax := make(map[string][]*ast.File)
	for _, file := range t.filesOf(func(f *File) bool { return !f.test() }) {
		syntax[file.Package()] = append(syntax[file.Package()], file.Syntax)
	}
	from := importer.ForCompiler(t.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Uses: make(map[*ast.Ident]types.Object)}
	broken := make(map[*ast.File]error)
	for pkg, files := range syntax {
		all := []error{listErr}
		config := types.Config{Importer: from, Error: func(err error) { all = append(all, err) }}
		_, _ = config.Check(Module+"/"+pkg, t.fset, files, info) // Error has had each error
		broken[files[0]] = errors.Join(all[:min(len(all), 3)]...)
	}
	return info, broken
}
