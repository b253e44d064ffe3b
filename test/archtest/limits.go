package archtest

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"time"
)

// checkLimits finds deadlines in real time that a busy machine misses: a context, a
// connection or an HTTP client gets a second or more, and not testwait.Bound of it.
// What gets less than a second is there to miss its deadline.
func (h *hermetic) checkLimits(file *File, visit func(func(ast.Node))) {
	imports := file.Imports()
	visit(func(node ast.Node) {
		if limit := limitOf(imports, node); limit != nil && atLeastASecond(imports, limit) {
			h.addf(file, limit.Pos(), ofLimit, "a busy machine may need longer: %s.Bound gives ten minutes with CI=true",
				waitPackage)
		}
	})
}

// limitOf returns the duration that a node sets a deadline with, nil if it sets none.
func limitOf(imports map[string]string, node ast.Node) ast.Expr {
	switch n := node.(type) {
	case *ast.CompositeLit:
		target, name, _ := selected(imports, n.Type)
		if target == "net/http" && name == "Client" || target == "net" && name == "Dialer" {
			return field(n, "Timeout")
		}
	case *ast.CallExpr:
		target, name, imported := selected(imports, n.Fun)
		switch {
		case target == "context" && strings.HasPrefix(name, "WithTimeout") && len(n.Args) > 1:
			return n.Args[1]
		case target == "net" && name == "DialTimeout" && len(n.Args) > 2:
			return n.Args[2]
		case !imported && strings.HasPrefix(calledName(n), "Set") && strings.HasSuffix(calledName(n), "Deadline") &&
			len(n.Args) == 1:
			if add, ok := n.Args[0].(*ast.CallExpr); ok && calledName(add) == "Add" && len(add.Args) == 1 {
				return add.Args[0]
			}
		}
	}
	return nil
}

// atLeastASecond reports whether expr is written as such a duration: 5*time.Second,
// time.Minute, testwait.Limit. A name may be another limit, of the product or of a
// test that waits for the deadline.
func atLeastASecond(imports map[string]string, expr ast.Expr) bool {
	d, ok := duration(imports, expr)
	return ok && d >= time.Second
}

// duration evaluates a duration that is written out.
func duration(imports map[string]string, expr ast.Expr) (time.Duration, bool) {
	switch x := expr.(type) {
	case *ast.BasicLit:
		n, err := strconv.Atoi(x.Value)
		return time.Duration(n), err == nil
	case *ast.SelectorExpr:
		target, name, _ := selected(imports, x)
		if target == Module+"/"+waitPackage && name == "Limit" {
			return time.Minute, true
		}
		unit, ok := map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute,
			"Hour": time.Hour}[name]
		return unit, ok && target == "time"
	case *ast.BinaryExpr:
		a, okA := duration(imports, x.X)
		b, okB := duration(imports, x.Y)
		return a * b, okA && okB && x.Op == token.MUL
	}
	return 0, false
}
