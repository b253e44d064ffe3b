package archtest

import (
	"go/ast"
	"go/token"
	"go/types"
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

// ordered reports whether the order of a map may not reach what a file computes, which is
// replicated.
func ordered(file *File) bool { return file.isGo() && !file.test() && within(file.Package(), "fsm") }

var (
	// aMap matches the underlying type of a map and of a type parameter that a map can fill.
	aMap = regexp.MustCompile(`^(?:interface ?\{)?~?map\[`)
	// inMapOrder matches what iterates over a map, sortedAtOnce what sorts it.
	inMapOrder   = regexp.MustCompile(`^maps\.(?:Keys|Values|All)\(`)
	sortedAtOnce = regexp.MustCompile(`^slices\.Sorted\w*\(`)
)

// checkMapOrder finds ranges over maps, and maps.Keys and the like that are not sorted at
// once.
func checkMapOrder(file *File, report report) {
	info, broken := file.tree.types()
	if err := broken[file.Syntax]; err != nil {
		report(1, "cannot be judged until package %s compiles: %v", file.Package(), err)
	}
	sorted := make(map[ast.Expr]bool)
	for loop := range each[*ast.RangeStmt](file.Syntax) {
		if t := info.TypeOf(loop.X); t != nil && aMap.MatchString(t.Underlying().String()) {
			report(file.line(loop.Pos()), "range over a map: sort its keys, or say `// order-free: why`")
		}
	}
	for call := range each[*ast.CallExpr](file.Syntax) {
		if sortedAtOnce.MatchString(file.text(call)) {
			sorted[call.Args[0]] = true
		}
		if inMapOrder.MatchString(file.text(call)) && !sorted[call] {
			report(file.line(call.Pos()), "in map order: wrap it in slices.Sorted, or say `// order-free: why`")
		}
	}
}

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
// assign to, or into, a variable of their package.
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
	var targets []ast.Expr // of assignments
	for change := range each[*ast.IncDecStmt](file.Syntax) {
		targets = append(targets, change.X)
	}
	for assignment := range each[*ast.AssignStmt](file.Syntax) {
		targets = append(targets, assignment.Lhs...)
	}
	info, _ := file.tree.types()
	for _, target := range targets {
		for ident := range each[*ast.Ident](target) { // the first: x of x.f, x[i] and *x
			if variable, ok := info.Uses[ident].(*types.Var); ok && variable.Kind() == types.PackageVar {
				report(file.line(target.Pos()), "package-level %s changes: keep state in a value", ident.Name)
			}
			break
		}
	}
}
