package archtest

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

// slowTag is the build tag of the tests that `make test` leaves out. They may need root,
// other programs and a machine that is not busy.
var slowTag = regexp.MustCompile(`(?m)^//go:build e2e\b`)

// portPackage owns the ports of tests that need one before something listens on it: it
// reserves them until the test ends.
const portPackage = "test/testenv"

// second is a duration of a second or more, as it is written.
const second = `(?:(?:\d+ ?\* ?)?time\.(?:Second|Minute|Hour)|\d{4,} ?\* ?time\.Millisecond|testwait\.Limit)`

// A listener's address: the one of a call of Listen, ListenPacket and their likes.
const listen = `^(?:[\w.]|\(\)|&?net\.ListenConfig\{\})*\bListen(?:Packet|TCP|UDP)?\((?:[\w.()]+, )?`

const onRealTime = "a busy machine breaks a limit on real time: use testing/synctest, wait for the event with " +
	waitPackage + ", or record the figure"

// habits make a test of every change fail for the machine's sake.
var habits = []pattern{
	{text: regexp.MustCompile(listen + `"\w+", (?:"[^"]*:(?:[1-9]\d*|[a-z]+)"|&net\.\w+\{.*Port: [1-9].*)\)$|` +
		`^http\.Server\{(?s:.*)\bAddr: +"[^"]*:(?:[1-9]|[a-z])`),
		instead: "another process may have this port: listen on port 0 and read the listener's address"},
	{text: regexp.MustCompile(listen + `(?:"(?:tcp|udp)\w*"|\w+), [A-Za-z][\w.\[\]]*\)$`),
		instead: "the port may be another's by now: listen on port 0 here, take a listener, or reserve the port with " +
			portPackage},
	{text: regexp.MustCompile(`^(?:time\.Now\(\)\.(?:After|Before)\(\w+\)|\w+\.(?:After|Before)\(time\.Now\(\)\))$`),
		realTime: true, instead: onRealTime},
	{text: regexp.MustCompile(`^(?:context\.WithTimeout\w*\(.*, |net\.DialTimeout\(.*, |` +
		`[\w.]+\.Set\w*Deadline\(.*\.Add\(|(?:http\.Client|net\.Dialer)\{(?s:.*)\bTimeout: +)` + second + `[),}]`),
		realTime: true, instead: "a busy machine may need longer: " + waitPackage + ".Bound gives ten minutes with CI=true"},
}

// checkHermetic finds what makes a test of every change fail for the machine's sake:
// another process, elapsed real time that is compared with a limit, a short deadline, a
// port that was closed and is used again, a port that the test chose.
func checkHermetic(file *File, report report) {
	matching(habits...)(file, report)
	imports := file.imports()
	for call := range each[*ast.CallExpr](file.Syntax) {
		if file.tree.starting()[callee(file, imports, call)] {
			report(file.line(call.Pos()), "a test that starts another process has the build tag e2e")
		}
	}
	for _, decl := range file.Syntax.Decls {
		checkElapsed(file, decl, report)
	}
	for _, fn := range file.funcs {
		checkReuse(file, fn, report)
	}
}

// hermetic reports whether a file is judged: a test that is compiled without the slow tag,
// or a harness that one of these imports, directly or through another.
func (f *File) hermetic() bool {
	return f.isGo() && !slowTag.MatchString(f.Source) && (f.test() || f.tree.judged()[f.Package()])
}

func (t *Tree) findJudged() map[string]bool {
	const tests = "" // is no package
	importers := make(map[string][]string)
	for _, file := range t.filesOf(func(f *File) bool { return !slowTag.MatchString(f.Source) }) {
		importer := file.Package()
		if file.test() {
			importer = tests
		}
		for _, spec := range file.Syntax.Imports {
			if pkg, ours := housePackage(importPath(spec)); ours && within(pkg, "test") && pkg != waitPackage {
				importers[pkg] = append(importers[pkg], importer)
			}
		}
	}
	return reaching(importers, map[string]bool{tests: true}, false)
}

// findStarting returns the functions that start a process, and those that call one of their
// own package, directly or through others: what another package starts is its own. Methods
// are not among them.
func (t *Tree) findStarting() map[name]bool {
	starters := map[name]bool{{"os/exec", "Command"}: true, {"os/exec", "CommandContext"}: true,
		{"os", "StartProcess"}: true, {"syscall", "ForkExec"}: true, {"syscall", "StartProcess"}: true,
		{"github.com/rogpeppe/go-internal/testscript", "Main"}:    true,
		{"github.com/rogpeppe/go-internal/testscript", "RunMain"}: true}
	calls := t.calls(func(f *File) bool { return !f.test() })
	for caller, called := range calls {
		calls[caller] = slices.DeleteFunc(called, func(one name) bool {
			return one.importPath != caller.importPath && !starters[one]
		})
	}
	return reaching(calls, starters, false)
}

// elapsed is what makes an expression elapsed real time.
var elapsed = regexp.MustCompile(`time\.(?:Since|Until)\(|time\.Now\(\)\.Sub\(|\.Sub\(time\.Now\(\)\)`)

// ordering matches what compares with a limit.
var ordering = regexp.MustCompile(`^[<>]=?$`)

// checkElapsed finds comparisons of elapsed real time in one declaration.
func checkElapsed(file *File, decl ast.Decl, report report) {
	passes := func(expr ast.Expr) bool { return computes(expr) && !file.inBubble(expr) }
	has := derived(file, decl, elapsed, passes)
	for compared := range each[*ast.BinaryExpr](decl) {
		for _, side := range []ast.Expr{compared.X, compared.Y} {
			if ordering.MatchString(compared.Op.String()) && passes(side) && has(side) {
				report(file.line(compared.Pos()), "%s", onRealTime)
			}
		}
	}
}

// derived returns what reports whether a node has something: its text matches from, or it
// has a name that the declaration gives to an expression that has it and hands it on.
func derived(file *File, decl ast.Decl, from *regexp.Regexp, handsOn func(ast.Expr) bool) (has func(ast.Node) bool) {
	const it = "0it" // is no name
	words := func(node ast.Node) []string {
		return identifier.FindAllString(from.ReplaceAllString(file.text(node), " "+it+" "), -1)
	}
	values := make(map[string][]string) // the words in what each name is assigned
	assign := func(to, value ast.Expr) {
		left, _, _ := strings.Cut(file.text(to), "[")
		if left = left[strings.LastIndexAny(left, ".*")+1:]; left != "_" && left != "err" && handsOn(value) {
			values[left] = append(values[left], words(value)...)
		}
	}
	for n := range each[*ast.AssignStmt](decl) {
		for i, value := range n.Rhs {
			assign(n.Lhs[i], value)
		}
	}
	for n := range each[*ast.ValueSpec](decl) {
		for i, value := range n.Values {
			assign(n.Names[i], value)
		}
	}
	for n := range each[*ast.RangeStmt](decl) {
		if n.Value != nil {
			assign(n.Value, n.X)
		}
	}
	reached := reaching(values, map[string]bool{it: true}, false)
	return func(node ast.Node) bool {
		return slices.ContainsFunc(words(node), func(word string) bool { return reached[word] })
	}
}

// computes reports whether an expression is neither a function nor a call of one of the
// test, which may make anything of elapsed time.
func computes(expr ast.Expr) bool {
	if call, ok := expr.(*ast.CallExpr); ok {
		ident, ok := call.Fun.(*ast.Ident)
		return !ok || slices.Contains([]string{"append", "min", "max", "int", "int64", "float64"}, ident.Name)
	}
	_, isFunc := expr.(*ast.FuncLit)
	return !isFunc
}

var (
	// binds matches a statement that gives a name to what holds a port.
	binds = regexp.MustCompile(`^(?:var )?([^\s,]+)(?:, \w+)? :?= (?:net\.Listen\w*|httptest\.New\w*Server)\(`)
	// answered matches what has a server's answer.
	answered = regexp.MustCompile(`\bhttp\.|\.Do\(|\.Get\(`)
)

// checkReuse finds ports that a function binds, closes and hands on: between the close
// and the next bind the kernel may give the port to another process. The function closes
// the listener before it reads the address or a text that it made of it, or it closes
// it with defer and returns the address.
func checkReuse(file *File, fn *ast.FuncDecl, report report) {
	for bound := range each[ast.Stmt](fn) {
		found := binds.FindStringSubmatch(file.text(bound))
		if found == nil {
			continue
		}
		listener, closed, deferred := found[1], false, false
		address := regexp.MustCompile(`\b` + regexp.QuoteMeta(listener) + `\.(?:Addr\(\)|LocalAddr\(\)|URL)`)
		hasAddress := derived(file, fn, address, func(expr ast.Expr) bool { return !answered.MatchString(file.text(expr)) })
		ast.Inspect(fn, func(node ast.Node) bool {
			switch node.(type) {
			case *ast.FuncLit: // it runs at another time
				return false
			case *ast.IfStmt, *ast.BlockStmt: // a condition may ask what a server answered
				return true
			}
			statement, ok := node.(ast.Stmt)
			if !ok || statement.Pos() <= bound.Pos() {
				return true
			}
			switch text := file.text(statement); {
			case strings.HasPrefix(text, listener+" = "): // the variable holds another listener
				closed, deferred = false, false
			case text == "defer "+listener+".Close()":
				deferred = true
			case strings.HasSuffix(text, listener+".Close()"):
				closed = true
			case closed && hasAddress(statement), deferred && strings.HasPrefix(text, "return") && hasAddress(statement),
				deferred && text == "return" && hasAddress(fn.Type):
				report(file.line(statement.Pos()),
					"%s is closed, and its port may be another's by now: hand the listener itself on, or take an address of %s",
					listener, portPackage)
			}
			return true
		})
	}
}
