package archtest

import (
	"go/ast"
	"go/token"
)

// checkElapsed finds comparisons of elapsed real time in one declaration, whose
// nodes in real time visit shows. Elapsed is time.Since, time.Until and the
// difference to a time.Now, what is computed from one of them, and what is assigned
// from it in the same declaration.
func (h *hermetic) checkElapsed(file *File, visit func(func(ast.Node))) {
	e := elapsed{imports: file.Imports(), names: make(map[string]bool), instants: make(map[string]bool)}
	for before := -1; before < len(e.names)+len(e.instants); { // a name may be assigned from a later one, in a loop
		before = len(e.names) + len(e.instants)
		visit(e.learn)
	}
	visit(func(node ast.Node) {
		if expr, ok := node.(ast.Expr); ok && e.compared(expr) {
			h.addf(file, expr.Pos(), ofElapsed,
				"a busy machine breaks a limit on real time: use testing/synctest, wait for the event with %s, or record the figure",
				waitPackage)
		}
	})
}

// elapsed knows which expressions of a declaration are elapsed time.
type elapsed struct {
	imports  map[string]string
	names    map[string]bool // of variables and fields that hold elapsed time
	instants map[string]bool // of variables that hold what the clock said
}

// compared reports whether expr compares elapsed time with a limit, or the clock
// with a deadline.
func (e *elapsed) compared(expr ast.Expr) bool {
	switch x := expr.(type) {
	case *ast.BinaryExpr:
		switch x.Op {
		case token.LSS, token.LEQ, token.GTR, token.GEQ:
			return e.is(x.X) || e.is(x.Y)
		}
	case *ast.CallExpr:
		sel, ok := x.Fun.(*ast.SelectorExpr)
		return ok && (sel.Sel.Name == "After" || sel.Sel.Name == "Before") && len(x.Args) == 1 && e.instant(sel.X) &&
			e.instant(x.Args[0])
	}
	return false
}

// now reports whether expr asks the clock of package time.
func (e *elapsed) now(expr ast.Expr) bool {
	call, ok := expr.(*ast.CallExpr)
	if !ok {
		return false
	}
	target, name, _ := selected(e.imports, call.Fun)
	return target == "time" && name == "Now"
}

// instant reports whether expr is what the clock said, a moment computed from it, or
// a variable that holds one. Other times, of a certificate or of a log, may be of a
// clock that a test drives.
func (e *elapsed) instant(expr ast.Expr) bool {
	switch x := expr.(type) {
	case *ast.Ident:
		return e.instants[x.Name]
	case *ast.CallExpr:
		sel, ok := x.Fun.(*ast.SelectorExpr)
		return e.now(x) || ok && sel.Sel.Name == "Add" && e.instant(sel.X)
	}
	return false
}

// learn notes the names that a node gives to elapsed time.
func (e *elapsed) learn(node ast.Node) {
	switch n := node.(type) {
	case *ast.AssignStmt:
		if len(n.Lhs) != len(n.Rhs) {
			return
		}
		for i, value := range n.Rhs {
			if e.is(value) {
				e.name(n.Lhs[i])
			}
			if ident, ok := n.Lhs[i].(*ast.Ident); ok && e.instant(value) {
				e.instants[ident.Name] = true
			}
		}
	case *ast.ValueSpec:
		for i, value := range n.Values {
			if len(n.Names) == len(n.Values) && e.is(value) {
				e.name(n.Names[i])
			}
		}
	case *ast.RangeStmt:
		if n.Value != nil && e.is(n.X) {
			e.name(n.Value)
		}
	}
}

func (e *elapsed) name(target ast.Expr) {
	switch t := target.(type) {
	case *ast.Ident:
		if t.Name != "_" {
			e.names[t.Name] = true
		}
	case *ast.SelectorExpr:
		e.names["."+t.Sel.Name] = true
	case *ast.IndexExpr:
		e.name(t.X)
	}
}

// is reports whether expr is elapsed time, or several.
func (e *elapsed) is(expr ast.Expr) bool {
	switch x := expr.(type) {
	case *ast.Ident:
		return e.names[x.Name]
	case *ast.SelectorExpr:
		return e.names["."+x.Sel.Name]
	case *ast.ParenExpr:
		return e.is(x.X)
	case *ast.UnaryExpr:
		return e.is(x.X)
	case *ast.IndexExpr:
		return e.is(x.X)
	case *ast.SliceExpr:
		return e.is(x.X)
	case *ast.BinaryExpr:
		switch x.Op {
		case token.ADD, token.SUB, token.MUL, token.QUO, token.REM:
			return e.is(x.X) || e.is(x.Y)
		}
	case *ast.CallExpr:
		return e.call(x)
	}
	return false
}

// keeping are the functions and conversions whose result is elapsed time if an
// argument is.
var keeping = map[string]bool{"min": true, "max": true, "append": true, "int": true, "int64": true, "float64": true}

// call reports whether a call returns elapsed time.
func (e *elapsed) call(call *ast.CallExpr) bool {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return keeping[fun.Name] && e.any(call.Args)
	case *ast.SelectorExpr:
		switch target, name, ok := selected(e.imports, fun); {
		case target == "time" && (name == "Since" || name == "Until"):
			return true
		case target == "time" && name == "Duration", target == "slices" && (name == "Max" || name == "Min"):
			return e.any(call.Args)
		case ok:
			return false
		}
		return e.is(fun.X) || fun.Sel.Name == "Sub" && len(call.Args) == 1 && (e.instant(fun.X) || e.instant(call.Args[0]))
	}
	return false
}

func (e *elapsed) any(all []ast.Expr) bool {
	for _, x := range all {
		if e.is(x) {
			return true
		}
	}
	return false
}
