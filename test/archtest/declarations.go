package archtest

import (
	"go/ast"
	"go/token"
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
	for _, fn := range file.funcs {
		for _, target := range assigned(fn) {
			root := identifier.FindString(file.text(target)) // x of x.f, x[i] and *x
			if file.tree.variables[name{file.Package(), root}] && !locals(file, fn)[root] {
				report(file.line(target.Pos()), "%s changes the package-level variable %s: keep state in a value",
					fn.Name.Name, root)
			}
		}
	}
}

// assigned returns what a function assigns to.
func assigned(fn ast.Node) (targets []ast.Expr) {
	for change := range each[*ast.IncDecStmt](fn) {
		targets = append(targets, change.X)
	}
	for assignment := range each[*ast.AssignStmt](fn) {
		if assignment.Tok != token.DEFINE {
			targets = append(targets, assignment.Lhs...)
		}
	}
	return targets
}

// declaring matches names that a statement declares, or has from a range.
var declaring = regexp.MustCompile(`\w[\w, ]* :=|\bvar \w[\w, ]*|\bfor \w[\w, ]* = range`)

// locals returns the names that a function declares anywhere: parameters, results,
// receiver, := and var, range.
func locals(file *File, fn ast.Node) map[string]bool {
	local := map[string]bool{"_": true}
	for field := range each[*ast.Field](fn) {
		for _, name := range field.Names {
			local[name.Name] = true
		}
	}
	for _, statement := range declaring.FindAllString(file.text(fn), -1) {
		for _, word := range identifier.FindAllString(statement, -1) {
			local[word] = true
		}
	}
	return local
}
