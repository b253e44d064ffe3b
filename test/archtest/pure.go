package archtest

import (
	"go/ast"
	"go/token"
	"slices"
)

// purity says what a package of values and rules must do without.
type purity struct {
	pkg     string
	imports []string // import paths it may not use at all
}

// pure lists the packages that are values and rules. All of them read no
// clock, make no randomness and start no goroutine; fsm, which must compute
// the same on every peer, does without I/O, locks and logs as well. Packages
// whose randomness is seeded per process (hash/maphash) count as randomness.
var pure = []purity{
	{"fsm", []string{
		"math/rand", "math/rand/v2", "crypto/rand", "hash/maphash",
		"os", "os/exec", "os/signal", "os/user", "io/ioutil", "syscall", "path/filepath",
		"net", "net/http", "net/rpc", "net/url", "net/textproto", "net/mail", "net/smtp",
		"log", "log/slog", "log/syslog", "sync", "sync/atomic", "context", "runtime", "unsafe",
	}},
	{"config", []string{"math/rand", "math/rand/v2", "crypto/rand", "log", "log/slog"}},
	{"cluster/pki", []string{"math/rand", "math/rand/v2", "crypto/rand", "os", "log", "log/slog"}},
}

func checkPure(tree *Tree, report *Report) {
	for _, file := range tree.Files {
		for _, p := range pure {
			if within(file.Package(), p.pkg) && !file.Test() {
				checkPureFile(file, p, report)
			}
		}
	}
}

func checkPureFile(file *File, p purity, report *Report) {
	for _, spec := range file.Syntax.Imports {
		if target := importPath(spec); slices.Contains(p.imports, target) {
			report.Addf(file, spec.Pos(), "%s is a pure package and may not import %s", p.pkg, target)
		}
	}
	imports := file.Imports()
	ast.Inspect(file.Syntax, func(node ast.Node) bool {
		if expr, ok := node.(ast.Expr); ok {
			if target, name, _ := selected(imports, expr); target == "time" && clockFuncs[name] {
				report.Addf(file, node.Pos(), "%s is a pure package and may not use time.%s: take the time as an argument", p.pkg,
					name)
			}
		}
		if what := concurrency(node); what != "" {
			report.Addf(file, node.Pos(), "%s is a pure package: no %s", p.pkg, what)
		}
		return true
	})
}

// concurrency names the construct when node is one of those that only
// concurrent code needs.
func concurrency(node ast.Node) string {
	switch node := node.(type) {
	case *ast.GoStmt:
		return "go statement"
	case *ast.SelectStmt:
		return "select"
	case *ast.ChanType:
		return "channel"
	case *ast.SendStmt:
		return "send"
	case *ast.UnaryExpr:
		if node.Op == token.ARROW {
			return "receive"
		}
	}
	return ""
}
