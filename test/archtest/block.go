package archtest

import (
	"go/ast"
	"go/token"
)

// checkBlock finds channel operations of a test that may wait for ever: sends and
// receives in real time, outside a select, on the goroutine that runs the test.
// Goroutines that a test starts may wait: the test waits for them with a bound, or
// for what they do. The end of a context needs no bound of its own.
func checkBlock(tree *Tree, report *Report) {
	inRealTime(tree, func(file *File, visit func(func(ast.Node))) {
		if !file.Test() {
			return
		}
		free := make(map[ast.Node]bool) // operations of a select and of other goroutines
		visit(func(node ast.Node) {
			switch n := node.(type) {
			case *ast.GoStmt:
				excuse(n, free)
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Go" {
					excuse(n, free)
				}
			case *ast.CommClause:
				excuseComm(n.Comm, free)
			case *ast.SendStmt:
				if !free[n] {
					report.Addf(file, n.Pos(), "a send without a bound: use %s.Send", waitPackage)
				}
			case *ast.UnaryExpr:
				if n.Op == token.ARROW && !free[n] && !endOfContext(n.X) {
					report.Addf(file, n.Pos(), "a receive without a bound: use %s.Receive", waitPackage)
				}
			}
		})
	})
}

// excuse frees every channel operation below root.
func excuse(root ast.Node, free map[ast.Node]bool) {
	ast.Inspect(root, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.SendStmt:
			free[n] = true
		case *ast.UnaryExpr:
			free[n] = true
		}
		return true
	})
}

// excuseComm frees the operation of a case of a select, but for what its channel
// is computed from.
func excuseComm(comm ast.Stmt, free map[ast.Node]bool) {
	switch s := comm.(type) {
	case *ast.SendStmt:
		free[s] = true
	case *ast.ExprStmt:
		free[s.X] = true
	case *ast.AssignStmt:
		free[s.Rhs[0]] = true
	}
}

// endOfContext reports whether x is a call of a method Done.
func endOfContext(x ast.Expr) bool {
	call, ok := x.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Done"
}
