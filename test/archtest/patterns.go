package archtest

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

// pattern is what the source of some files may not show. Its text is that of a function,
// an expression, a goroutine, a send, a channel or a select, from its first letter.
type pattern struct {
	text     *regexp.Regexp
	realTime bool // but in a bubble it may
	instead  string
}

// atImport is what runs when a package is imported.
var atImport = pattern{text: regexp.MustCompile(`^func init\(\)`),
	instead: "do it in a constructor that its user calls"}

// clock matches what reads or waits for a clock.
const clock = `^time\.(?:Now|Since|Until|Sleep|After|AfterFunc|Tick|NewTicker|NewTimer)$`

// impure is what values and rules do without: a clock and goroutines. What they may not
// import is in bans.
var impure = []pattern{
	{text: regexp.MustCompile(clock), instead: "a pure package takes the time as an argument"},
	{text: regexp.MustCompile(`^(?:go |select \{|(?:<-)?chan\b|<-|[\w.()\[\]]+ <- )`),
		instead: "a pure package has no goroutine and no channel"},
}

// pure reports whether a file is of a package that is values and rules.
func pure(file *File) bool {
	pkg := file.Package()
	return file.isGo() && !file.test() && (within(pkg, "fsm") || within(pkg, "config") || within(pkg, "cluster/pki"))
}

// servers are what serves requests or leads them to their handlers: elsewhere than in
// files that are not classless, a route would be asked without a bound on what its
// requests cost (docs/design.md#admission).
var servers = pattern{
	text: regexp.MustCompile(`^(?:http\.(?:Server|ServeMux|NewServeMux|DefaultServeMux|Handle|HandleFunc|ListenAndServe|Serve)|` +
		`echo\.New|httpserver\.New)$`),
	instead: "its routes have no class: add them to those of a file that gives each one"}

// classless reports whether a file serves no routes. The others give each route a class;
// their golden files list the classes: testdata/classes.txt of api, app and app/admin.
func classless(file *File) bool {
	return file.isGo() && !file.test() && !harness(file.Package()) && !slices.Contains([]string{
		"api/front.go", "api/web/page.go", "cluster/port.go", "cluster/routes.go", // API, page, peers' port
		"app/start.go", "app/haconfig.go", "lease/elector/endpoint.go", // servers, whose handlers admit
		"internal/httpserver/server.go",
	}, file.Path)
}

// realWait is how a test waits for time to pass: in a bubble time is virtual, and a wait
// costs nothing.
var realWait = pattern{text: regexp.MustCompile(`^time\.(?:Sleep|After|Tick)\(`), realTime: true,
	instead: "use testing/synctest, or wait for the event with " + waitPackage}

// matching returns the check that finds patterns.
func matching(patterns ...pattern) func(*File, report) {
	return func(file *File, report report) {
		for node := range ast.Preorder(file.Syntax) {
			switch node.(type) {
			case *ast.CallExpr, *ast.CompositeLit, *ast.SelectorExpr, *ast.UnaryExpr, *ast.GoStmt, *ast.SendStmt,
				*ast.SelectStmt, *ast.ChanType, *ast.FuncDecl:
			default:
				continue
			}
			text := file.text(node)
			for _, p := range patterns {
				if p.text.MatchString(text) && !(p.realTime && file.inBubble(node)) {
					line, _, _ := strings.Cut(text, "\n")
					report(file.line(node.Pos()), "%s: %s", line, p.instead)
				}
			}
		}
	}
}
