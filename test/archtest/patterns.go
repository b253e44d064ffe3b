package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// clock matches what reads or waits for a clock.
const clock = `^time\.(?:Now|Since|Until|Sleep|After|AfterFunc|Tick|NewTicker|NewTimer)$`

var (
	// clockRead is matched against a selected name, as are the servers.
	clockRead = regexp.MustCompile(clock)
	// servers are what serves requests or leads them to their handlers.
	servers = regexp.MustCompile(
		`^(?:http\.(?:Server|ServeMux|NewServeMux|DefaultServeMux|Handle|HandleFunc|ListenAndServe|Serve)|echo\.New|httpserver\.New)$`)
	// realWait is matched against a call: how a test waits for time to pass.
	realWait = regexp.MustCompile(`^time\.(?:Sleep|After|Tick)\(`)
)

// text returns the source of a node, in which patterns look: gofmt writes each thing in
// one way, and packages are known by their own names.
func (t *Tree) text(file *File, node ast.Node) string {
	return string(file.Source[t.fset.Position(node.Pos()).Offset:t.fset.Position(node.End()).Offset])
}

// selectors visits every a.b of a file with its text.
func (t *Tree) selectors(file *File, visit func(pos token.Pos, text string)) {
	ast.Inspect(file.Syntax, func(node ast.Node) bool {
		if sel, ok := node.(*ast.SelectorExpr); ok {
			visit(sel.Pos(), t.text(file, sel))
		}
		return true
	})
}

// pure lists the packages that are values and rules: no clock, no goroutine. What they
// may not import is in bans.
var pure = []string{"fsm", "config", "cluster/pki"}

func checkPure(tree *Tree, report *Report) {
	checkBans("pure")(tree, report)
	for _, file := range tree.Files {
		inside := slices.IndexFunc(pure, func(p string) bool { return within(file.Package(), p) })
		if inside < 0 || file.Test() {
			continue
		}
		tree.selectors(file, func(pos token.Pos, text string) {
			if clockRead.MatchString(text) {
				report.Addf(file, pos, "%s is a pure package and may not use %s: take the time as an argument", pure[inside], text)
			}
		})
		ast.Inspect(file.Syntax, func(node ast.Node) bool {
			receive, isUnary := node.(*ast.UnaryExpr)
			switch node.(type) {
			case *ast.GoStmt, *ast.SelectStmt, *ast.ChanType, *ast.SendStmt:
				report.Addf(file, node.Pos(), "%s is a pure package: no goroutine and no channel", pure[inside])
			}
			if isUnary && receive.Op == token.ARROW {
				report.Addf(file, node.Pos(), "%s is a pure package: no receive", pure[inside])
			}
			return true
		})
	}
}

// classed are the files that serve routes and give each a class. Their golden files
// list the classes: testdata/classes.txt of api, app and app/admin.
var classed = []string{
	"api/front.go", "api/web/page.go", "cluster/port.go", "cluster/routes.go", // API, page, peers' port
	"app/start.go", "app/haconfig.go", "lease/elector/endpoint.go", // servers, whose handlers admit
	"internal/httpserver/server.go",
}

// checkClass finds servers and routers elsewhere: a route that they have would be asked
// without a bound on what its requests cost.
func checkClass(tree *Tree, report *Report) {
	for _, file := range tree.Files {
		if file.Test() || harness(file.Package()) || slices.Contains(classed, file.Path) {
			continue
		}
		tree.selectors(file, func(pos token.Pos, text string) {
			if servers.MatchString(text) {
				report.Addf(file, pos, "%s serves routes that have no class: see %v", text, classed)
			}
		})
	}
}

// checkSleep finds waits in real time, time.Sleep and its likes, in test files
// and in the harnesses: outside a bubble, where time is virtual and a sleep costs
// nothing, and outside the package that owns the waits.
func checkSleep(tree *Tree, report *Report) {
	inRealTime(tree, func(file *File, visit func(func(ast.Node))) {
		visit(func(node ast.Node) {
			call, ok := node.(*ast.CallExpr)
			if !ok || !realWait.MatchString(tree.text(file, call)) {
				return
			}
			called, _, _ := strings.Cut(tree.text(file, call), "(")
			report.Addf(file, call.Pos(), "%s in real time: use testing/synctest, or wait for the event with %s", called,
				waitPackage)
		})
	})
}
