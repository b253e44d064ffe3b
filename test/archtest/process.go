package archtest

import (
	"go/ast"
	"slices"
)

// starters are the functions that start a process.
var starters = map[string][]string{
	"os/exec":         {"Command", "CommandContext"},
	"os":              {"StartProcess"},
	"syscall":         {"ForkExec", "StartProcess"},
	testscriptPackage: {"Main", "RunMain"},
}

// testscriptPackage runs scripts of commands, each in a process of its own.
const testscriptPackage = "github.com/rogpeppe/go-internal/testscript"

// startersOf finds the functions of each package, by package and name, that start a
// process themselves or through another function of the package. Methods are left
// out: without types it is not known whose they are.
func startersOf(tree *Tree) map[string]map[string]bool {
	all := make(map[string]map[string]bool)
	for changed := true; changed; {
		changed = false
		for _, file := range tree.Files {
			pkg := file.Package()
			if all[pkg] == nil {
				all[pkg] = make(map[string]bool)
			}
			if file.Test() {
				continue
			}
			imports := file.Imports()
			for fn := range file.funcs() {
				if fn.Recv != nil || all[pkg][fn.Name.Name] {
					continue
				}
				ast.Inspect(fn, func(node ast.Node) bool {
					if call, ok := node.(*ast.CallExpr); ok && starts(imports, all[pkg], call) {
						all[pkg][fn.Name.Name], changed = true, true
					}
					return true
				})
			}
		}
	}
	return all
}

// starts reports whether a call starts a process; own are the functions of its
// package that do.
func starts(imports map[string]string, own map[string]bool, call *ast.CallExpr) bool {
	if ident, ok := call.Fun.(*ast.Ident); ok {
		return own[ident.Name]
	}
	target, name, _ := selected(imports, call.Fun)
	return slices.Contains(starters[target], name)
}
