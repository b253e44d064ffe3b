package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
)

// checkInit finds functions that run at import.
func checkInit(tree *Tree, report *Report) {
	for _, file := range tree.Files {
		for fn := range file.funcs() {
			if fn.Recv == nil && fn.Name.Name == "init" && !file.Generated() {
				report.Addf(file, fn.Pos(), "func init: do it in a constructor that somebody calls")
			}
		}
	}
}

// checkGlobals finds package-level variables that hold a clock, a logger,
// metrics, randomness or a lock, and package-level variables that some
// function changes. The latter is a heuristic without types: a name that a
// function also declares itself counts as local throughout that function.
func checkGlobals(tree *Tree, report *Report) {
	variables := make(map[string]map[string]bool) // package → names
	for _, file := range tree.Files {
		if file.Test() || file.Generated() {
			continue
		}
		pkg := file.Package()
		if variables[pkg] == nil {
			variables[pkg] = make(map[string]bool)
		}
		for spec := range packageVars(file) {
			for _, name := range spec.Names {
				variables[pkg][name.Name] = true
			}
			checkGlobalKind(tree, file, spec, report)
		}
	}
	for _, file := range tree.Files {
		if !file.Test() && !file.Generated() {
			checkChanged(file, variables[file.Package()], report)
		}
	}
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

// handedIn matches what no package-level variable may hold: a clock, a logger,
// randomness, state that several goroutines change, metrics.
var handedIn = regexp.MustCompile(clock + `|^time\.(?:Timer|Ticker)$|^slog\.(?:Logger|New|Default|With)$|` +
	`^(?:log|rand|sync|atomic|prometheus|promauto)\.`)

// checkGlobalKind reports a variable that holds one of these, once.
func checkGlobalKind(tree *Tree, file *File, spec *ast.ValueSpec, report *Report) {
	found := false
	ast.Inspect(spec, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncLit:
			return false // it runs when called, not when imported
		case *ast.SelectorExpr:
			if text := tree.text(file, n); !found && handedIn.MatchString(text) {
				found = true
				report.Addf(file, spec.Pos(), "package-level %s: hand it in", text)
			}
		}
		return true
	})
}

// checkChanged finds functions that assign to, or into, a variable of their package.
func checkChanged(file *File, variables map[string]bool, report *Report) {
	for fn := range file.funcs() {
		if fn.Body == nil {
			continue
		}
		local := declaredIn(fn)
		changed := func(expr ast.Expr) {
			if name := rootName(expr); name != nil && variables[name.Name] && !local[name.Name] {
				report.Addf(file, expr.Pos(), "%s changes the package-level variable %s: keep state in a value", fn.Name.Name,
					name.Name)
			}
		}
		ast.Inspect(fn.Body, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.AssignStmt:
				if node.Tok != token.DEFINE {
					for _, left := range node.Lhs {
						changed(left)
					}
				}
			case *ast.IncDecStmt:
				changed(node.X)
			}
			return true
		})
	}
}

// rootName finds x in x, x.f, x[i] and *x.
func rootName(expr ast.Expr) *ast.Ident {
	switch expr := expr.(type) {
	case *ast.Ident:
		return expr
	case *ast.SelectorExpr:
		return rootName(expr.X)
	case *ast.IndexExpr:
		return rootName(expr.X)
	case *ast.StarExpr:
		return rootName(expr.X)
	case *ast.ParenExpr:
		return rootName(expr.X)
	}
	return nil
}

// declaredIn returns the names that a function declares anywhere: parameters, results,
// receiver, := and var, range.
func declaredIn(fn ast.Node) map[string]bool {
	local := make(map[string]bool)
	note := func(exprs ...ast.Expr) {
		for _, expr := range exprs {
			if ident, ok := expr.(*ast.Ident); ok {
				local[ident.Name] = true
			}
		}
	}
	ast.Inspect(fn, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				note(name)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				note(n.Lhs...)
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				note(name)
			}
		case *ast.RangeStmt:
			note(n.Key, n.Value)
		}
		return true
	})
	return local
}
