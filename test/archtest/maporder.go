package archtest

import (
	"errors"
	"go/ast"
	"go/build"
	"go/importer"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// orderNote excuses a range over a map whose order cannot be seen, with the
// reason behind it, on the line of the range or the line above.
const orderNote = "order-free: "

// checkMapOrder finds ranges over maps in fsm, and maps.Keys and the like that are not
// sorted at once. It needs the types of what fsm imports, which the go command compiles
// when they are not cached.
func checkMapOrder(tree *Tree, report *Report) {
	files := make(map[string][]*File)
	var targets []string
	for _, file := range tree.Files {
		if within(file.Package(), "fsm") && !file.Test() && compiled(tree, file) {
			files[file.Package()] = append(files[file.Package()], file)
			targets = append(targets, slices.Collect(maps.Values(file.Imports()))...)
		}
	}
	from, err := exportData(tree.Root, targets)
	for pkg, files := range files { // order-free: findings are sorted
		info, broken := typesOf(tree, pkg, files, importer.ForCompiler(tree.fset, "gc", from))
		if err := errors.Join(err, broken); err != nil {
			report.addLine(files[0], 1, "cannot be judged until package %s compiles: %v", pkg, err)
		}
		for _, file := range files {
			checkMapOrderIn(tree, file, info, report)
		}
	}
}

// exportData asks the go command, run in dir, for the types of packages.
func exportData(dir string, packages []string) (importer.Lookup, error) {
	slices.Sort(packages)
	list := exec.Command("go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", "--"},
		slices.Compact(packages)...)...)
	list.Dir = dir
	out, err := list.Output()
	files := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		files[name] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }, err
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
func typesOf(tree *Tree, pkg string, files []*File, from types.Importer) (*types.Info, error) {
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue)}
	var syntax []*ast.File
	for _, file := range files {
		syntax = append(syntax, file.Syntax)
	}
	var broken []error
	config := types.Config{Importer: from, Error: func(err error) { broken = append(broken, err) }}
	_, err := config.Check(Module+"/"+pkg, tree.fset, syntax, info)
	if len(broken) > 0 {
		err = errors.Join(broken[:min(len(broken), 3)]...)
	}
	return info, err
}
