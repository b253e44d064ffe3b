package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// compiler type-checks packages with a mutant in them, in this process: a build of
// each mutant would take hours. Its methods may be called concurrently.
type compiler struct {
	root     string
	files    *token.FileSet
	packages map[string]*sourcePackage // by directory relative to root, with slashes
	exports  map[string]string         // file of export data by import path

	mu       sync.Mutex // guards importer; the packages that it returns need no lock
	importer types.ImporterFrom
}

// sourcePackage is a package as go list describes it, as far as it is used here.
type sourcePackage struct {
	Dir, ImportPath, Export string
	GoFiles, CgoFiles       []string
	ImportMap               map[string]string
	Standard                bool
	Module                  *struct {
		Main      bool
		GoVersion string
	}
	Error *struct{ Err string }

	parse func() (map[string]*ast.File, error) // by name of the file; done once
}

// newCompiler asks the go command for the packages of the mutants' files and for
// what they import, compiled.
func newCompiler(root string, mutants []Mutant) (*compiler, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	args := []string{"list", "-e", "-export", "-deps",
		"-json=Dir,ImportPath,Export,GoFiles,CgoFiles,ImportMap,Standard,Module,Error"}
	for _, m := range mutants {
		if pkg := "./" + path.Dir(m.File); !slices.Contains(args, pkg) {
			args = append(args, pkg)
		}
	}
	cmd := exec.Command("go", args...) // not hermetic: the command that compiled the test itself
	var problems bytes.Buffer
	cmd.Dir, cmd.Stderr = root, &problems
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, &problems)
	}
	c := &compiler{root: root, files: token.NewFileSet(), packages: make(map[string]*sourcePackage),
		exports: make(map[string]string)}
	c.importer = importer.ForCompiler(c.files, "gc", c.exportData).(types.ImporterFrom)
	for list := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(sourcePackage)
		switch err := list.Decode(p); {
		case errors.Is(err, io.EOF):
			return c, nil
		case err != nil:
			return nil, fmt.Errorf("read what go list printed: %w", err)
		}
		if err := c.add(p); err != nil {
			return nil, err
		}
	}
}

func (c *compiler) add(p *sourcePackage) error {
	c.exports[p.ImportPath] = p.Export
	if p.Standard || p.Module == nil || !p.Module.Main {
		return nil
	}
	if p.Error != nil {
		return fmt.Errorf("go list %s: %s", p.ImportPath, p.Error.Err)
	}
	dir, err := filepath.Rel(c.root, p.Dir)
	if err != nil {
		return err
	}
	dir = filepath.ToSlash(dir)
	p.parse = sync.OnceValues(func() (map[string]*ast.File, error) { return c.parse(dir, p.GoFiles) })
	c.packages[dir] = p
	// go test runs this test again where a file changed that the test looked at.
	for _, name := range p.GoFiles {
		if _, err := os.Stat(filepath.Join(p.Dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// parse reads the files of a package. Their names are relative to the root of the
// module, as those of the mutants.
func (c *compiler) parse(dir string, names []string) (map[string]*ast.File, error) {
	parsed := make(map[string]*ast.File)
	for _, name := range names {
		file := path.Join(dir, name)
		text, err := os.ReadFile(filepath.Join(c.root, filepath.FromSlash(file)))
		if err != nil {
			return nil, err
		}
		if parsed[name], err = parser.ParseFile(c.files, file, text, parser.SkipObjectResolution); err != nil {
			return nil, err
		}
	}
	return parsed, nil
}

// check returns what the compiler would say of the mutant, each error on a line
// after its name.
func (c *compiler) check(m Mutant) error {
	p := c.packages[path.Dir(m.File)]
	if p == nil || !slices.Contains(p.GoFiles, path.Base(m.File)) {
		return fmt.Errorf("%s: %s is in no package that is built here", m.Name, m.File)
	}
	if len(p.CgoFiles) > 0 {
		return fmt.Errorf("%s: %s uses cgo, which is not type-checked", m.Name, p.ImportPath)
	}
	source, err := m.mutated(c.root)
	if err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	mutated, err := parser.ParseFile(c.files, m.File, source, parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("%s: does not compile:\n%w", m.Name, err)
	}
	parsed, err := p.parse()
	if err != nil {
		return err
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		if name == path.Base(m.File) {
			files = append(files, mutated)
		} else {
			files = append(files, parsed[name])
		}
	}
	var said []error
	config := types.Config{
		GoVersion: "go" + p.Module.GoVersion,
		Sizes:     types.SizesFor("gc", runtime.GOARCH),
		Importer:  importerOf{c, p},
		Error:     func(err error) { said = append(said, err) },
	}
	if _, err := config.Check(p.ImportPath, c.files, files, nil); err != nil && len(said) == 0 {
		said = append(said, err)
	}
	if len(said) > 0 {
		return fmt.Errorf("%s: does not compile:\n%w", m.Name, errors.Join(said...))
	}
	return nil
}

// importerOf imports for one package, whose go list may map an import to a vendored
// path.
type importerOf struct {
	*compiler
	pkg *sourcePackage
}

func (i importerOf) Import(name string) (*types.Package, error) {
	if actual, mapped := i.pkg.ImportMap[name]; mapped {
		name = actual
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.importer.ImportFrom(name, i.root, 0)
}

// exportData opens what the compiler wrote about a package. An import that a mutant
// adds is not among those that newCompiler asked for.
func (c *compiler) exportData(name string) (io.ReadCloser, error) {
	file := c.exports[name]
	if file == "" {
		// not hermetic: the go command compiled the test itself.
		cmd := exec.Command("go", "list", "-export", "-f", "{{.Export}}", name)
		cmd.Dir = c.root
		out, err := cmd.CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("go list %s: %w\n%s", name, err, out)
		}
		file = strings.TrimSpace(string(out))
	}
	return os.Open(file)
}
