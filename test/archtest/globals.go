package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
)

// checkInit finds functions that run at import.
func checkInit(file *File, report report) {
	for fn := range file.funcs() {
		if fn.Recv == nil && fn.Name.Name == "init" && !ast.IsGenerated(file.Syntax) {
			report(file.line(fn.Pos()), "func init: do it in a constructor that its user calls")
		}
	}
}

// handedIn matches what no package-level variable may hold: a clock, a logger,
// randomness, state that several goroutines change, metrics.
var handedIn = regexp.MustCompile(clock + `|^time\.(?:Timer|Ticker)$|^slog\.(?:Logger|New|Default|With)$|` +
	`^(?:log|rand|sync|atomic|prometheus|promauto)\.`)

// checkGlobals finds package-level variables that hold one of these, and functions that
// assign to, or into, a variable of their package. The latter is a heuristic without
// types: a name that a function also declares itself counts as local throughout it.
func checkGlobals(file *File, report report) {
	for spec := range packageVars(file) {
		ast.Inspect(spec, func(node ast.Node) bool {
			if sel, ok := node.(*ast.SelectorExpr); ok && handedIn.MatchString(file.text(sel)) {
				report(file.line(spec.Pos()), "package-level %s: hand it in", file.text(sel))
			}
			_, later := node.(*ast.FuncLit) // it runs when called, not when imported
			return !later
		})
	}
	variables := file.tree.variables()[file.Package()]
	for fn := range file.funcs() {
		local := declaredIn(fn)
		for _, target := range assigned(fn) {
			if name := identifier.FindString(file.text(target)); variables[name] && !local[name] {
				report(file.line(target.Pos()), "%s changes the package-level variable %s: keep state in a value",
					fn.Name.Name, name)
			}
		}
	}
}

// findVariables returns the names of the package-level variables of each package.
func (t *Tree) findVariables() map[string]map[string]bool {
	variables := make(map[string]map[string]bool)
	for _, file := range t.Files {
		if variables[file.Package()] == nil {
			variables[file.Package()] = make(map[string]bool)
		}
		if !file.written() {
			continue
		}
		for spec := range packageVars(file) {
			for _, name := range spec.Names {
				variables[file.Package()][name.Name] = true
			}
		}
	}
	return variables
}

// packageVars iterates over the package-level variable declarations of a file, without
// those that only assert an interface.
func packageVars(file *File) func(yield func(*ast.ValueSpec) bool) {
	return func(yield func(*ast.ValueSpec) bool) {
		for _, decl := range file.Syntax.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR {
				continue
			}
			for _, spec := range group.Specs {
				if spec, ok := spec.(*ast.ValueSpec); ok && spec.Names[0].Name != "_" && !yield(spec) {
					return
				}
			}
		}
	}
}

// assigned returns what a function assigns to, its own declarations left out.
func assigned(fn ast.Node) (targets []ast.Expr) {
	ast.Inspect(fn, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				targets = append(targets, n.Lhs...)
			}
		case *ast.IncDecStmt:
			targets = append(targets, n.X)
		}
		return true
	})
	return targets
}

// declaredIn returns the names that a function declares anywhere: parameters, results,
// receiver, := and var, range.
func declaredIn(fn ast.Node) map[string]bool {
	local := make(map[string]bool)
	ast.Inspect(fn, func(node ast.Node) bool {
		var names []ast.Expr
		switch n := node.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				names = append(names, name)
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				names = append(names, name)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				names = n.Lhs
			}
		case *ast.RangeStmt:
			names = []ast.Expr{n.Key, n.Value}
		}
		for _, name := range names {
			if ident, ok := name.(*ast.Ident); ok {
				local[ident.Name] = true
			}
		}
		return true
	})
	return local
}
