package archtest

import (
	"go/ast"
	"go/token"
	"slices"
)

// checkReuse finds ports that a function binds, closes and hands on: between the
// close and the next bind the kernel may give the port to somebody else. The
// function closes the listener before it reads the address or what it computed from
// it, or it closes it with defer and returns the address.
func (h *hermetic) checkReuse(file *File) {
	imports := file.Imports()
	for fn := range file.funcs() {
		if fn.Body == nil {
			continue
		}
		for listener := range boundIn(imports, fn.Body) {
			p := port{imports: imports, listener: listener, names: make(map[string]bool)}
			if pos := p.reused(fn); pos.IsValid() {
				h.addf(file, pos, ofReuse,
					"%s is closed, and its port may be another's by now: hand the listener itself on, or take an address of %s",
					listener, portPackage)
			}
		}
	}
}

// boundIn iterates over the names of the variables of a body that hold a listener, a
// packet connection or a server of httptest.
func boundIn(imports map[string]string, body ast.Node) func(yield func(string) bool) {
	var names []string
	ast.Inspect(body, func(node ast.Node) bool {
		assign, ok := node.(*ast.AssignStmt)
		if !ok || len(assign.Rhs) != 1 {
			return true
		}
		call, ok := assign.Rhs[0].(*ast.CallExpr)
		if !ok {
			return true
		}
		target, name, _ := selected(imports, call.Fun)
		_, listens := listenAddress(imports, call)
		if listens || target == "net/http/httptest" &&
			(name == "NewServer" || name == "NewTLSServer" || name == "NewUnstartedServer") {
			if ident, ok := assign.Lhs[0].(*ast.Ident); ok {
				names = append(names, ident.Name)
			}
		}
		return true
	})
	slices.Sort(names)
	return slices.Values(slices.Compact(names))
}

// port is one listener of a function and the names of what its address is in.
type port struct {
	imports  map[string]string
	listener string
	names    map[string]bool
}

// reused returns where the address is used after the close, or returned before it.
func (p *port) reused(fn *ast.FuncDecl) token.Pos {
	closed, deferred := p.closes(fn.Body)
	p.learn(fn.Body)
	var results []*ast.Ident
	if fn.Type.Results != nil {
		for _, result := range fn.Type.Results.List {
			results = append(results, result.Names...)
		}
	}
	found, again := token.NoPos, false
	inFunction(fn.Body, func(node ast.Node) bool {
		if found.IsValid() {
			return false
		}
		if assign, ok := node.(*ast.AssignStmt); ok && closed.IsValid() && assign.Pos() > closed &&
			variable(assign.Lhs[0]) == p.listener {
			again = true // the variable holds another listener
		}
		if ret, ok := node.(*ast.ReturnStmt); ok && deferred {
			named := len(ret.Results) == 0 && slices.ContainsFunc(results, func(r *ast.Ident) bool { return p.names[r.Name] })
			if named || slices.ContainsFunc(ret.Results, p.derived) {
				found = ret.Pos()
			}
		}
		if expr, ok := node.(ast.Expr); ok && closed.IsValid() && expr.Pos() > closed && !again && p.address(expr) {
			found = expr.Pos()
		}
		return true
	})
	return found
}

// closes finds the first close of the listener that happens in the body's own order,
// and whether one is deferred.
func (p *port) closes(body ast.Node) (closed token.Pos, deferred bool) {
	inFunction(body, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.DeferStmt:
			deferred = deferred || p.isClose(n.Call)
			return false
		case *ast.CallExpr:
			if p.isClose(n) && !closed.IsValid() {
				closed = n.End()
			}
		}
		return true
	})
	return closed, deferred
}

func (p *port) isClose(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "Close" {
		return false
	}
	ident, ok := sel.X.(*ast.Ident)
	return ok && ident.Name == p.listener
}

// learn notes the names that are assigned from the address, until there are no more.
func (p *port) learn(body ast.Node) {
	for before := -1; before < len(p.names); {
		before = len(p.names)
		inFunction(body, func(node ast.Node) bool {
			if assign, ok := node.(*ast.AssignStmt); ok {
				for i, value := range assign.Rhs {
					if name := variable(assign.Lhs[i]); name != "" && p.derived(value) {
						p.names[name] = true
					}
				}
			}
			return true
		})
	}
}

// variable names the variable that an assignment changes, or whose element it changes.
func variable(target ast.Expr) string {
	switch t := target.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.IndexExpr:
		return variable(t.X)
	}
	return ""
}

// formatting are the packages whose functions make an address of an address.
var formatting = []string{"fmt", "net", "net/netip", "net/url", "strings", "strconv"}

// derived reports whether expr is computed from the address and is still one.
func (p *port) derived(expr ast.Expr) bool {
	if p.address(expr) {
		return true
	}
	switch x := expr.(type) {
	case *ast.SelectorExpr:
		return p.derived(x.X)
	case *ast.TypeAssertExpr:
		return p.derived(x.X)
	case *ast.BinaryExpr:
		return p.derived(x.X) || p.derived(x.Y)
	case *ast.CallExpr:
		target, _, imported := selected(p.imports, x.Fun)
		if ident, ok := x.Fun.(*ast.Ident); ok && ident.Name == "append" || slices.Contains(formatting, target) {
			return slices.ContainsFunc(x.Args, p.derived)
		}
		return !imported && p.derived(x.Fun)
	}
	return false
}

// address reports whether expr is the address of the listener, or a name for it.
func (p *port) address(expr ast.Expr) bool {
	switch x := expr.(type) {
	case *ast.Ident:
		return p.names[x.Name]
	case *ast.SelectorExpr:
		ident, ok := x.X.(*ast.Ident)
		return ok && ident.Name == p.listener && (x.Sel.Name == "Addr" || x.Sel.Name == "LocalAddr" || x.Sel.Name == "URL")
	}
	return false
}

// inFunction visits the nodes below root but for function literals, which run at
// another time.
func inFunction(root ast.Node, visit func(ast.Node) bool) {
	ast.Inspect(root, func(node ast.Node) bool {
		if _, isFunc := node.(*ast.FuncLit); isFunc || node == nil {
			return false
		}
		return visit(node)
	})
}
