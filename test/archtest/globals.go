package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
)

// handedIn matches what no package-level variable may hold: a clock, a logger,
// randomness, state that several goroutines change, metrics.
var handedIn = regexp.MustCompile(clock + `|^time\.(?:Timer|Ticker)$|^slog\.(?:Logger|New|Default|With)$|` +
	`^(?:log|rand|sync|atomic|prometheus|promauto)\.`)

// checkGlobals finds package-level variables that hold one of these, and functions that
// assign to, or into, a variable of their package. The latter is a heuristic without
// types: a name that a function also declares itself counts as local throughout it.
func checkGlobals(file *File, report report) {
	for _, d := range file.declared() {
		if d.kind != token.VAR || d.Name == "_" { // which only asserts an interface
			continue
		}
		ast.Inspect(d.node, func(node ast.Node) bool {
			if sel, ok := node.(*ast.SelectorExpr); ok && handedIn.MatchString(file.text(sel)) {
				report(file.line(d.Pos()), "package-level %s: hand it in", file.text(sel))
			}
			_, later := node.(*ast.FuncLit) // it runs when called, not when imported
			return !later
		})
	}
	variables := file.tree.variables()
	for fn := range file.funcs() {
		assigned, local := assignments(fn)
		for _, target := range assigned {
			root := identifier.FindString(file.text(target)) // x of x.f, x[i] and *x
			if variables[name{file.Package(), root}] && !local[root] {
				report(file.line(target.Pos()), "%s changes the package-level variable %s: keep state in a value",
					fn.Name.Name, root)
			}
		}
	}
}

// findVariables returns the package-level variables.
func (t *Tree) findVariables() map[name]bool {
	variables := make(map[name]bool)
	for _, file := range t.Files {
		for _, d := range file.declared() {
			if d.kind == token.VAR && file.written() {
				variables[name{file.Package(), d.Name}] = true
			}
		}
	}
	return variables
}

// assignments returns what a function assigns to, and the names that it declares anywhere:
// parameters, results, receiver, := and var, range.
func assignments(fn ast.Node) (assigned []ast.Expr, local map[string]bool) {
	local = map[string]bool{"_": true}
	declare := func(expr ast.Expr) {
		if ident, ok := expr.(*ast.Ident); ok {
			local[ident.Name] = true
		}
	}
	ast.Inspect(fn, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				declare(name)
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				declare(name)
			}
		case *ast.RangeStmt:
			declare(n.Key)
			declare(n.Value)
		case *ast.IncDecStmt:
			assigned = append(assigned, n.X)
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				assigned = append(assigned, n.Lhs...)
				break
			}
			for _, left := range n.Lhs {
				declare(left)
			}
		}
		return true
	})
	return assigned, local
}
