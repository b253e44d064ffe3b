package archtest

import (
	"errors"
	"go/ast"
	"go/importer"
	"go/types"
	"io"
	"os"
	"os/exec"
	"regexp"
)

// ordered reports whether the order of a map may not reach what a file computes, which is
// replicated.
func ordered(file *File) bool { return file.isGo() && !file.test() && within(file.Package(), "fsm") }

var (
	// aMap matches the underlying type of a map and of a type parameter that a map can fill.
	aMap = regexp.MustCompile(`^(?:interface ?\{)?~?map\[`)
	// inMapOrder matches what iterates over a map, sortedAtOnce what sorts it.
	inMapOrder   = regexp.MustCompile(`^maps\.(?:Keys|Values|All)\(`)
	sortedAtOnce = regexp.MustCompile(`^slices\.Sorted\w*\(`)
)

// checkMapOrder finds ranges over maps, and maps.Keys and the like that are not sorted at
// once.
func checkMapOrder(file *File, report report) {
	info, broken := file.tree.types()
	if err := broken[file.Syntax]; err != nil {
		report(1, "cannot be judged until package %s compiles: %v", file.Package(), err)
	}
	sorted := make(map[ast.Expr]bool)
	for loop := range each[*ast.RangeStmt](file.Syntax) {
		if t := info.TypeOf(loop.X); t != nil && aMap.MatchString(t.Underlying().String()) {
			report(file.line(loop.Pos()), "range over a map: sort its keys, or say `// order-free: why`")
		}
	}
	for call := range each[*ast.CallExpr](file.Syntax) {
		if sortedAtOnce.MatchString(file.text(call)) {
			sorted[call.Args[0]] = true
		}
		if inMapOrder.MatchString(file.text(call)) && !sorted[call] {
			report(file.line(call.Pos()), "in map order: wrap it in slices.Sorted, or say `// order-free: why`")
		}
	}
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
