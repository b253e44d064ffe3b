package archtest

import (
	"go/ast"
	"go/token"
	"strings"
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
		imports := file.Imports()
		for spec := range packageVars(file) {
			for _, name := range spec.Names {
				if name.Name != "_" { // asserts an interface, and keeps nothing
					variables[pkg][name.Name] = true
				}
			}
			checkGlobalKind(file, spec, imports, report)
		}
	}
	for _, file := range tree.Files {
		if !file.Test() && !file.Generated() {
			checkChanged(file, variables[file.Package()], report)
		}
	}
}

// packageVars iterates over the package-level variable declarations of a file.
func packageVars(file *File) func(yield func(*ast.ValueSpec) bool) {
	return func(yield func(*ast.ValueSpec) bool) {
		for _, decl := range file.Syntax.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR {
				continue
			}
			for _, spec := range group.Specs {
				if spec, ok := spec.(*ast.ValueSpec); ok && !yield(spec) {
					return
				}
			}
		}
	}
}

func checkGlobalKind(file *File, spec *ast.ValueSpec, imports map[string]string, report *Report) {
	if spec.Names[0].Name == "_" {
		return // an interface assertion
	}
	found := false // one finding a variable is enough
	inspect := func(node ast.Node) bool {
		if _, isFunc := node.(*ast.FuncLit); isFunc || found {
			return false // a function runs when called, not when imported
		}
		expr, ok := node.(ast.Expr)
		if !ok {
			return true
		}
		target, name, ok := selected(imports, expr)
		if kind := globalKind(target, name); ok && kind != "" {
			found = true
			report.Addf(file, spec.Pos(), "package-level %s (%s.%s): hand it in", kind, target, name)
			return false
		}
		return true
	}
	if spec.Type != nil {
		ast.Inspect(spec.Type, inspect)
	}
	for _, value := range spec.Values {
		ast.Inspect(value, inspect)
	}
}

// globalKind says what a name of another package would make of a
// package-level variable, "" when nothing bad.
func globalKind(target, name string) string {
	switch target {
	case "time":
		if clockFuncs[name] || name == "Timer" || name == "Ticker" {
			return "clock"
		}
	case "log/slog":
		if name == "Logger" || name == "New" || name == "Default" || name == "With" {
			return "logger"
		}
	case "log":
		return "logger"
	case "math/rand", "math/rand/v2", "crypto/rand":
		return "randomness"
	case "sync", "sync/atomic":
		return "mutable state"
	}
	if strings.HasPrefix(target, "github.com/prometheus/client_golang/") {
		return "metrics"
	}
	return ""
}

// clockFuncs are the functions of package time that read or wait for a clock.
var clockFuncs = map[string]bool{
	"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true,
	"Tick": true, "NewTicker": true, "NewTimer": true,
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
