package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// checkSettle finds reads in a bubble that race with what a goroutine of the bubble
// writes: time.Sleep ends while the others may still run at the same instant, and
// only synctest.Wait waits for them. It is narrow, so that what it finds is a
// defect. It knows two kinds of shared state, both without a lock:
//
//   - a field of a fake of the package's tests, which the bubble's function makes and
//     which a method writes that no test calls: the product does, and the bubble's
//     function starts a goroutine;
//   - a variable of the bubble's function that a goroutine which it starts writes.
//
// A read is found in the statements after a time.Sleep, up to the first that may
// wait for the goroutine: synctest.Wait, a receive, a lock, or a call with a name
// such as Close or Stop.
func checkSettle(tree *Tree, report *Report) {
	tests := make(map[string][]*File)
	for _, file := range tree.Files {
		if file.Test() {
			tests[file.Package()] = append(tests[file.Package()], file)
		}
	}
	bubbles := tree.waitingTests().bubbles
	for _, files := range tests {
		s := settle{report: report, writers: fieldWriters(files), makers: makersOf(files), waiting: waitingHelpers(files),
			called: calledIn(files)}
		for _, file := range files {
			s.imports = file.Imports()
			for _, decl := range file.Syntax.Decls {
				walkBubbles(file, decl, false, bubbles, func(node ast.Node, inBubble bool) {
					if call, ok := node.(*ast.CallExpr); ok && !inBubble {
						s.checkCall(file, call, bubbles)
					}
				})
			}
		}
	}
}

// settle judges the bubbles of one package's tests.
type settle struct {
	report  *Report
	imports map[string]string
	writers map[string]map[string][]string // type → field → methods that write it without a lock
	makers  map[string]string              // function → T, of which it returns a pointer
	waiting map[string]bool                // functions of the tests that may wait for goroutines
	called  map[string]bool                // functions and methods that the tests call
}

// fieldWriters finds the fields that methods in the given files write without a lock.
func fieldWriters(files []*File) map[string]map[string][]string {
	writers := make(map[string]map[string][]string)
	for _, file := range files {
		for fn := range file.funcs() {
			if fn.Recv == nil || fn.Body == nil || len(fn.Recv.List[0].Names) == 0 || locks(fn.Body) {
				continue
			}
			of := pointee(fn.Recv.List[0].Type)
			if writers[of] == nil {
				writers[of] = make(map[string][]string)
			}
			for target := range written(fn.Body) {
				if sel, ok := target.(*ast.SelectorExpr); ok && isName(sel.X, fn.Recv.List[0].Names[0].Name) {
					writers[of][sel.Sel.Name] = append(writers[of][sel.Sel.Name], fn.Name.Name)
				}
			}
		}
	}
	return writers
}

// written iterates over what the statements of a body assign to; of an element, over
// what it is an element of.
func written(body ast.Node) func(yield func(ast.Expr) bool) {
	var targets []ast.Expr
	ast.Inspect(body, func(node ast.Node) bool {
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
	return func(yield func(ast.Expr) bool) {
		for _, target := range targets {
			if element, ok := target.(*ast.IndexExpr); ok {
				target = element.X
			}
			if !yield(target) {
				return
			}
		}
	}
}

func isName(expr ast.Expr, name string) bool {
	ident, ok := expr.(*ast.Ident)
	return ok && ident.Name == name
}

// mayWait matches the names of what may wait for goroutines.
var mayWait = regexp.MustCompile(
	`^(wait|lock|close|stop|shut|drop|end|leave|until|join|settle|cancel|flush)|Wait|Lock|Close|Stop|Shut|Drop|End|Leave|Until|Join|Settle|Receive|Cancel|Flush`)

// locks reports whether a call below root may wait for a goroutine or a lock, or a
// receive does.
func locks(root ast.Node) (found bool) {
	ast.Inspect(root, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CallExpr:
			found = found || mayWait.MatchString(calledName(n))
		case *ast.UnaryExpr:
			found = found || n.Op == token.ARROW
		case *ast.SelectStmt:
			found = true
		case *ast.RangeStmt:
			if call, ok := n.X.(*ast.CallExpr); ok { // a channel, or a sequence that locks
				found = found || mayWait.MatchString(calledName(call))
			}
		}
		return !found
	})
	return found
}

// calledName is the name of a called function or method, "" if it has none.
func calledName(call *ast.CallExpr) string {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		return fun.Sel.Name
	}
	return ""
}

// calledIn returns the names of all that the files call.
func calledIn(files []*File) map[string]bool {
	called := make(map[string]bool)
	for _, file := range files {
		ast.Inspect(file.Syntax, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok {
				called[calledName(call)] = true
			}
			return true
		})
	}
	return called
}

// waitingHelpers finds the functions and methods of the files that may wait, and the
// variables that hold such a function.
func waitingHelpers(files []*File) map[string]bool {
	waiting := make(map[string]bool)
	learn := func(name string, body *ast.BlockStmt) {
		if body != nil && name != "" && !waiting[name] && (locks(body) || callsOne(body, waiting)) {
			waiting[name] = true
		}
	}
	for before := -1; before < len(waiting); {
		before = len(waiting)
		for _, file := range files {
			ast.Inspect(file.Syntax, func(node ast.Node) bool {
				switch n := node.(type) {
				case *ast.FuncDecl:
					learn(n.Name.Name, n.Body)
				case *ast.AssignStmt:
					for i, value := range n.Rhs {
						if lit, ok := value.(*ast.FuncLit); ok {
							learn(variable(n.Lhs[i]), lit.Body)
						}
					}
				}
				return true
			})
		}
	}
	return waiting
}

func callsOne(root ast.Node, names map[string]bool) (found bool) {
	ast.Inspect(root, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok {
			found = found || names[calledName(call)]
		}
		return !found
	})
	return found
}

// checkCall judges the function literals that a call hands to a bubble.
func (s *settle) checkCall(file *File, call *ast.CallExpr, bubbles map[bubble]bool) {
	target, name, _ := selected(s.imports, call.Fun)
	if ident, ok := call.Fun.(*ast.Ident); ok {
		target, name = Module+"/"+file.Package(), ident.Name
	}
	if !bubbles[bubble{target, name}] {
		return
	}
	for _, arg := range call.Args {
		if lit, ok := arg.(*ast.FuncLit); ok {
			if shared := s.sharedOf(lit.Body); len(shared) > 0 {
				s.block(file, lit.Body.List, false, shared)
			}
		}
	}
}

// sharedOf finds the state that a bubble's function shares with goroutines: names of
// variables, and of fields as "variable.field".
func (s *settle) sharedOf(body *ast.BlockStmt) map[string]bool {
	shared, starts := make(map[string]bool), false
	goroutine := func(n ast.Node) {
		starts = true
		ast.Inspect(n, func(node ast.Node) bool {
			if lit, ok := node.(*ast.FuncLit); ok && !locks(lit.Body) {
				local := declaredIn(lit)
				for target := range written(lit.Body) {
					if ident, ok := target.(*ast.Ident); ok && !local[ident.Name] && ident.Name != "_" {
						shared[ident.Name] = true
					}
				}
			}
			return true
		})
	}
	made := make(map[string]string) // variable → type
	ast.Inspect(body, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.GoStmt:
			goroutine(n)
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Go" {
				goroutine(n)
			}
		case *ast.AssignStmt:
			for i, value := range n.Rhs {
				ident, ok := n.Lhs[i].(*ast.Ident)
				if ok && n.Tok == token.DEFINE {
					made[ident.Name] = s.madeType(value)
				}
			}
		}
		return true
	})
	if !starts {
		return nil
	}
	for name, of := range made { // order-free: into a map
		if of == "" {
			continue
		}
		for field, methods := range s.writers[of] { // order-free: into a map
			if !slices.ContainsFunc(methods, func(method string) bool { return s.called[method] }) {
				shared[name+"."+field] = true
			}
		}
	}
	return shared
}

// madeType names the type T of &T{…}, and of a call of a function of the tests that
// returns a *T; "" for another expression.
func (s *settle) madeType(value ast.Expr) string {
	switch v := value.(type) {
	case *ast.UnaryExpr:
		if lit, ok := v.X.(*ast.CompositeLit); ok {
			return pointee(&ast.StarExpr{X: lit.Type})
		}
	case *ast.CallExpr:
		if ident, ok := v.Fun.(*ast.Ident); ok {
			return s.makers[ident.Name]
		}
	}
	return ""
}

// pointee names the type T of a *T that the package declares.
func pointee(expr ast.Expr) string {
	if star, ok := expr.(*ast.StarExpr); ok {
		if ident, ok := star.X.(*ast.Ident); ok {
			return ident.Name
		}
	}
	return ""
}

// makersOf returns the functions of the files that return a *T, with T.
func makersOf(files []*File) map[string]string {
	makers := make(map[string]string)
	for _, file := range files {
		for fn := range file.funcs() {
			if fn.Recv == nil && fn.Type.Results != nil && len(fn.Type.Results.List) == 1 {
				makers[fn.Name.Name] = pointee(fn.Type.Results.List[0].Type)
			}
		}
	}
	return makers
}

// declaredIn returns the names that a function or a block declares anywhere:
// parameters, results, receiver, := and var, range.
func declaredIn(root ast.Node) map[string]bool {
	local := make(map[string]bool)
	ast.Inspect(root, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				local[name.Name] = true
			}
		case *ast.AssignStmt:
			for _, target := range n.Lhs {
				if ident, ok := target.(*ast.Ident); ok && n.Tok == token.DEFINE {
					local[ident.Name] = true
				}
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				local[name.Name] = true
			}
		case *ast.RangeStmt:
			for _, target := range []ast.Expr{n.Key, n.Value} {
				if ident, ok := target.(*ast.Ident); ok {
					local[ident.Name] = true
				}
			}
		}
		return true
	})
	return local
}

// block judges statements in their order. slept says whether a sleep came before
// them with no wait after it; block returns the same of what follows.
func (s *settle) block(file *File, list []ast.Stmt, slept bool, shared map[string]bool) bool {
	for _, stmt := range list {
		slept = s.statement(file, stmt, slept, shared)
	}
	return slept
}

func (s *settle) statement(file *File, stmt ast.Stmt, slept bool, shared map[string]bool) bool {
	switch n := stmt.(type) {
	case *ast.ExprStmt:
		if call, ok := n.X.(*ast.CallExpr); ok {
			if target, name, _ := selected(s.imports, call.Fun); target == "time" && name == "Sleep" {
				return true
			}
		}
	case *ast.BlockStmt:
		return s.block(file, n.List, slept, without(shared, n))
	case *ast.ForStmt:
		s.reads(file, n.Cond, slept, shared)
		return s.block(file, n.Body.List, slept, without(shared, n))
	case *ast.RangeStmt:
		s.reads(file, n.X, slept, shared)
		return s.block(file, n.Body.List, slept, without(shared, n))
	case *ast.DeferStmt, *ast.GoStmt:
		return slept
	}
	if locks(stmt) || callsOne(stmt, s.waiting) {
		return false
	}
	if slept {
		s.reads(file, stmt, slept, shared)
	}
	return slept
}

// without returns the shared state without the names that an inner block declares
// itself.
func without(shared map[string]bool, inner ast.Node) map[string]bool {
	local, rest := declaredIn(inner), make(map[string]bool)
	for name := range shared { // order-free: into a map
		variable, _, _ := strings.Cut(name, ".")
		rest[name] = !local[variable]
	}
	return rest
}

// reads reports the first shared state that node reads.
func (s *settle) reads(file *File, node ast.Node, slept bool, shared map[string]bool) {
	if node == nil || !slept || locks(node) || callsOne(node, s.waiting) {
		return
	}
	found := false
	ast.Inspect(node, func(node ast.Node) bool {
		if _, isFunc := node.(*ast.FuncLit); isFunc || found {
			return false
		}
		name := ""
		switch n := node.(type) {
		case *ast.Ident:
			name = n.Name
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.Ident); ok {
				name = of.Name + "." + n.Sel.Name
			}
		case *ast.AssignStmt:
			if ident, ok := n.Lhs[0].(*ast.Ident); ok && n.Tok == token.DEFINE && shared[ident.Name] {
				found = true // another variable of that name
			}
		}
		if !found && shared[name] {
			found = true
			s.report.Addf(file, node.Pos(),
				"a goroutine of the bubble may still write %s at this instant: call synctest.Wait after time.Sleep", name)
		}
		return !found
	})
}
