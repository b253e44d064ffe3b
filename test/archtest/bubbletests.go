package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// BubbleTests returns the tests that run in synctest bubbles as a whole, sorted, by the
// directory of their package relative to the root. Such a test calls synctest.Test, or a
// function that does, and outside of it only computes parameters, reports, and says
// how long it took: its result depends on no process, network or load of the machine,
// so a second run tells nothing that the first did not. A test is left out where that
// cannot be seen.
func BubbleTests(tree *Tree) map[string][]string {
	w := whole{bubbles: tree.waitingTests().bubbles, functions: make(map[bubble][]testFunc),
		known: make(map[bubble]conduct)}
	all := testFuncs(tree)
	for _, f := range all {
		w.functions[f.name()] = append(w.functions[f.name()], f)
	}
	tests := make(map[string][]string)
	for _, f := range all {
		if strings.HasPrefix(f.decl.Name.Name, "Test") && f.test && w.conduct(f.name()) == enters {
			tests[f.pkg] = append(tests[f.pkg], f.decl.Name.Name)
		}
	}
	for _, names := range tests { // order-free: each is sorted
		slices.Sort(names)
	}
	return tests
}

// testFunc is a function, which a test may call, and what its file imports.
type testFunc struct {
	pkg     string
	test    bool // of a test file
	imports map[string]string
	decl    *ast.FuncDecl
}

func (f testFunc) name() bubble { return bubble{Module + "/" + f.pkg, f.decl.Name.Name} }

// testFuncs returns the functions of the tests, and those of harnesses and the product
// that they may call, without methods.
func testFuncs(tree *Tree) (all []testFunc) {
	for _, file := range tree.Files {
		imports := file.Imports()
		for fn := range file.funcs() {
			if fn.Recv == nil && fn.Body != nil {
				all = append(all, testFunc{file.Package(), file.Test(), imports, fn})
			}
		}
	}
	return all
}

// conduct is what a function does outside of a bubble.
type conduct int

const (
	unseen   conduct = iota // it may wait, or ask something outside of the test
	computes                // it only computes
	enters                  // it enters a bubble, and else only computes
)

// whole decides which functions run in bubbles as a whole.
type whole struct {
	bubbles   map[bubble]bool
	functions map[bubble][]testFunc // of one name there are two under two build tags
	known     map[bubble]conduct
}

// conduct returns what a function does; of one that calls itself it is not seen.
func (w whole) conduct(name bubble) conduct {
	if c, known := w.known[name]; known {
		return c
	}
	w.known[name] = unseen
	c := unseen
	for i, f := range w.functions[name] {
		if one := w.judge(f); i == 0 || one == unseen {
			c = one
		}
	}
	w.known[name] = c
	return c
}

// judge reads what a function does.
func (w whole) judge(f testFunc) conduct {
	c := computes
	var visit func(ast.Node) bool
	visit = func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt:
			c = unseen
		case *ast.FuncLit: // judged where it is called, or below as an argument
			return false
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				c = unseen
			}
		case *ast.CallExpr:
			target, name, imported := selected(f.imports, n.Fun)
			if ident, ok := n.Fun.(*ast.Ident); ok {
				target, name = Module+"/"+f.pkg, ident.Name
			}
			called := bubble{target, name}
			if w.bubbles[called] || w.conduct(called) == enters {
				if c == computes {
					c = enters
				}
				for _, arg := range n.Args {
					if _, isFunc := arg.(*ast.FuncLit); !isFunc { // what is a literal runs in the bubble
						ast.Inspect(arg, visit)
					}
				}
				return false
			}
			if w.conduct(called) != computes && !w.harmless(n, target, name, imported) {
				c = unseen
			}
			for _, arg := range n.Args {
				if literal, isFunc := arg.(*ast.FuncLit); isFunc {
					ast.Inspect(literal.Body, visit)
				}
			}
		}
		return c != unseen
	}
	ast.Inspect(f.decl.Body, visit)
	return c
}

// pureImports are the packages whose functions a test may call outside of its bubble.
var pureImports = []string{"cmp", "errors", "fmt", "maps", "math", "math/bits", "path", "regexp", "slices", "sort",
	"strconv", "strings", "unicode/utf8"}

// reports are the methods of a testing.T, and of what a test computes, that wait for
// nothing. Run and Check call a function literal, whose body is judged where it stands.
var reports = []string{"Error", "Errorf", "Fatal", "Fatalf", "Log", "Logf", "Helper", "Skip", "Skipf", "Name", "Run",
	"Setenv", "Fail", "Failed", "Parallel",
	"Hours", "Minutes", "Seconds", "Milliseconds", "Round", "Truncate", "String"}

// basic are the predeclared functions and types that a test may call.
var basic = []string{"append", "cap", "clear", "copy", "delete", "len", "make", "max", "min", "new", "panic",
	"byte", "float64", "int", "int64", "string", "uint", "uint64"}

// harmless reports whether a call neither waits nor asks anything outside of the test.
func (w whole) harmless(call *ast.CallExpr, target, name string, imported bool) bool {
	switch {
	case imported:
		return slices.Contains(pureImports, target) ||
			target == "time" && slices.Contains([]string{"Duration", "Now", "Since"}, name) ||
			target == "testing" && name == "Short" || target == "os" && (name == "Getenv" || name == "LookupEnv") ||
			target == "pgregory.net/rapid" && name == "Check"
	case slices.Contains(basic, name):
		return true
	}
	switch fun := call.Fun.(type) {
	case *ast.SelectorExpr:
		return slices.Contains(reports, fun.Sel.Name)
	case *ast.ArrayType, *ast.MapType: // a conversion
		return true
	}
	return false
}
