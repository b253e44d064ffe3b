package archtest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// orderNote excuses a range over a map whose order cannot be seen, with the
// reason behind it, on the line of the range or the line above.
const orderNote = "order-free: "

// checkMapOrder finds ranges over maps in fsm, and maps.Keys and the like that
// are not sorted at once. It needs types, hence export data of what fsm
// imports, which the go command builds when it is not cached.
func checkMapOrder(tree *Tree, report *Report) {
	packages := make(map[string][]*File)
	for _, file := range tree.Files {
		if within(file.Package(), "fsm") && !file.Test() && compiled(tree, file) {
			packages[file.Package()] = append(packages[file.Package()], file)
		}
	}
	for pkg, files := range packages {
		info, err := typesOf(tree, pkg, files)
		if err != nil {
			report.addLine(files[0], 1, "cannot be judged until package %s compiles: %v", pkg, err)
		}
		for _, file := range files {
			checkMapOrderIn(tree, file, info, report)
		}
	}
}

// compiled reports whether the build tags of the file let it into this build.
func compiled(tree *Tree, file *File) bool {
	context := build.Default
	context.OpenFile = func(string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(string(file.Source))), nil
	}
	ok, err := context.MatchFile(filepath.Join(tree.Root, file.Package()), filepath.Base(file.Path))
	return ok || err != nil
}

func checkMapOrderIn(tree *Tree, file *File, info *types.Info, report *Report) {
	notes := noteLines(tree, file, orderNote)
	imports := file.Imports()
	sorted := make(map[ast.Expr]bool) // arguments of slices.Sorted…
	ast.Inspect(file.Syntax, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.RangeStmt:
			if isMap(info.TypeOf(node.X)) && !notes[tree.Line(node.Pos())] {
				report.Addf(file, node.Pos(), "range over a map: sort its keys, or say `// %swhy`", orderNote)
			}
		case *ast.CallExpr:
			target, name, _ := selected(imports, node.Fun)
			if target == "slices" && strings.HasPrefix(name, "Sorted") {
				sorted[node.Args[0]] = true
			}
			if target == "maps" && slices.Contains([]string{"Keys", "Values", "All"}, name) &&
				!sorted[node] && !notes[tree.Line(node.Pos())] {
				report.Addf(file, node.Pos(), "maps.%s in map order: wrap it in slices.Sorted, or say `// %swhy`", name, orderNote)
			}
		}
		return true
	})
}

// isMap reports whether t is a map, or a type parameter that a map can fill.
func isMap(t types.Type) bool {
	if t == nil {
		return false // the expression did not type-check
	}
	switch u := t.Underlying().(type) {
	case *types.Map:
		return true
	case *types.Interface:
		for embedded := range u.EmbeddedTypes() {
			if isMap(embedded) {
				return true
			}
		}
	case *types.Union:
		for term := range u.Terms() {
			if isMap(term.Type()) {
				return true
			}
		}
	}
	return false
}

// typesOf type-checks the files of one package. The information is as
// complete as the errors allow.
func typesOf(tree *Tree, pkg string, files []*File) (*types.Info, error) {
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Defs: make(map[*ast.Ident]types.Object),
		Uses: make(map[*ast.Ident]types.Object)}
	var syntax []*ast.File
	var targets []string
	for _, file := range files {
		syntax = append(syntax, file.Syntax)
		for _, spec := range file.Syntax.Imports {
			targets = append(targets, importPath(spec))
		}
	}
	exports, err := exportData(tree.Root, targets)
	if err != nil {
		return info, err
	}
	var broken []error
	config := types.Config{
		Importer: importer.ForCompiler(tree.fset, "gc", exports),
		Error:    func(err error) { broken = append(broken, err) },
	}
	_, err = config.Check(Module+"/"+pkg, tree.fset, syntax, info)
	if len(broken) > 0 {
		err = errors.Join(broken[:min(len(broken), 3)]...)
	}
	return info, err
}

// exportData asks the go command, run in dir, for the export data of packages
// and everything they import.
func exportData(dir string, packages []string) (importer.Lookup, error) {
	slices.Sort(packages)
	packages = slices.Compact(packages)
	files := make(map[string]string)
	if len(packages) > 0 {
		args := append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", "--"}, packages...)
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Stderr = new(strings.Builder)
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w: %s", err, cmd.Stderr)
		}
		for line := range strings.Lines(string(out)) {
			name, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
			files[name] = file
		}
	}
	return func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, fmt.Errorf("no export data for %s", path)
		}
		return os.Open(files[path])
	}, nil
}
