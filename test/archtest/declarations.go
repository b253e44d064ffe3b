package archtest

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
)

// checkDocs wants a comment on every package, exported function, method of an exported
// type, exported type, and exported constant or variable.
func checkDocs(file *File, report report) {
	if file.tree.documents[file.Package()] == "" {
		report(file.line(file.Syntax.Package), "package %s has no package comment", file.Package())
	}
	for _, d := range file.declared() {
		if d.IsExported() && d.doc == "" && (d.receiver == "" || ast.IsExported(d.receiver)) {
			report(file.line(d.Pos()), "exported %s %s has no comment", d.kind, d.Name)
		}
	}
}

// handedIn matches what no package-level variable may hold: a clock, a logger,
// randomness, state that several goroutines change, metrics.
var handedIn = regexp.MustCompile(clock + `|^time\.(?:Timer|Ticker)$|^slog\.(?:Logger|New|Default|With)$|` +
	`^(?:log|rand|sync|atomic|prometheus|promauto)\.`)

// checkGlobals finds package-level variables that hold one of these, and functions that
// assign to, or into, a variable of their package.
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
	info, _ := file.tree.types()
	for _, target := range assigned(file.Syntax) {
		for ident := range each[*ast.Ident](target) { // the first: x of x.f, x[i] and *x
			if variable, ok := info.Uses[ident].(*types.Var); ok && variable.Kind() == types.PackageVar {
				report(file.line(target.Pos()), "package-level %s changes: keep state in a value", ident.Name)
			}
			break
		}
	}
}

// assigned returns what a file assigns to.
func assigned(file *ast.File) (targets []ast.Expr) {
	for change := range each[*ast.IncDecStmt](file) {
		targets = append(targets, change.X)
	}
	for assignment := range each[*ast.AssignStmt](file) {
		targets = append(targets, assignment.Lhs...)
	}
	return targets
}
