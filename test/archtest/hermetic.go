package archtest

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// slowTag is the build tag of the tests that `make test` leaves out. They may need
// root, other programs and a machine that is not busy.
const slowTag = "e2e"

// What a test of every change must not do, as the exceptions name it.
const (
	ofProcess = "process" // starts another process
	ofElapsed = "elapsed" // compares elapsed real time with a limit
	ofReuse   = "reuse"   // uses a port that it does not hold
	ofFixed   = "fixed"   // listens on a port that it chose itself
	ofLimit   = "limit"   // gives an event less time than a busy machine needs
)

// hermeticException lets one function, or one file as a whole, do one of the things
// that checkHermetic finds.
type hermeticException struct{ place, kind, why string }

// hermeticExceptions are the exceptions. One that excuses nothing is a finding.
var hermeticExceptions = []hermeticException{
	{"cli/start_test.go:take", ofReuse,
		"it takes the port that the peer is about to use, as another program would; the test has reserved it"},
	{"cli/fakeapi_test.go:status", ofElapsed,
		"introspections of this fake go on by the clock, and no test judges for how long"},
	{"cluster/gossip_test.go:TestGossipThatCannotStart", ofReuse,
		"it takes the port that gossip is about to use, as another program would; the test has reserved it"},
	{"test/mutants/mutants_test.go:TestUsage", ofProcess, "its calls are refused or only list rows; no row is judged"},
	{"test/mutants/compiler_test.go", ofProcess,
		"it asks the go command, which compiled the test itself, for the packages that the rows are compiled against"},
}

// starters are the functions that start a process. A package's own that call one are
// among them; methods are not.
var starters = map[name]bool{{"os/exec", "Command"}: true, {"os/exec", "CommandContext"}: true,
	{"os", "StartProcess"}: true, {"syscall", "ForkExec"}: true, {"syscall", "StartProcess"}: true,
	{"github.com/rogpeppe/go-internal/testscript", "Main"}:    true,
	{"github.com/rogpeppe/go-internal/testscript", "RunMain"}: true}

// second is a duration of a second or more, as it is written.
const second = `(?:(?:\d+ ?\* ?)?time\.(?:Second|Minute|Hour)|\d{4,} ?\* ?time\.Millisecond|testwait\.Limit)`

// A listener's address: the one of a call of Listen, ListenPacket and their likes.
const listen = `^(?:[\w.]|\(\)|&?net\.ListenConfig\{\})*\bListen(?:Packet|TCP|UDP)?\((?:[\w.()]+, )?`

const onRealTime = "a busy machine breaks a limit on real time: use testing/synctest, wait for the event with " +
	waitPackage + ", or record the figure"

// habits are what the text of a call or literal shows.
var habits = []struct {
	kind     string
	text     *regexp.Regexp
	realTime bool // not in a bubble
	instead  string
}{
	{ofFixed, regexp.MustCompile(listen + `"\w+", (?:"[^"]*:(?:[1-9]\d*|[a-z]+)"|&net\.\w+\{.*Port: [1-9].*)\)$`), false,
		"another process may have this port: listen on port 0 and read the listener's address"},
	{ofFixed, regexp.MustCompile(`^http\.Server\{(?s:.*)\bAddr: +"[^"]*:(?:[1-9]|[a-z])`), false,
		"another process may have this port: listen on port 0 and call Serve"},
	{ofReuse, regexp.MustCompile(listen + `(?:"(?:tcp|udp)\w*"|\w+), [A-Za-z][\w.\[\]]*\)$`), false,
		"the port may be another's by now: listen on port 0 here, take a listener, or reserve the port with " + portPackage},
	{ofElapsed, regexp.MustCompile(
		`^(?:time\.Now\(\)\.(?:After|Before)\(\w+\)|\w+\.(?:After|Before)\(time\.Now\(\)\))$`), true, onRealTime},
	{ofLimit, regexp.MustCompile(`^(?:context\.WithTimeout\w*\(.*, |net\.DialTimeout\(.*, |` +
		`[\w.]+\.Set\w*Deadline\(.*\.Add\(|(?:http\.Client|net\.Dialer)\{(?s:.*)\bTimeout: +)` + second + `[),}]`), true,
		"a busy machine may need longer: " + waitPackage + ".Bound gives ten minutes with CI=true"},
}

// hermetic gathers the findings.
type hermetic struct {
	tree       *Tree
	report     *Report
	starters   map[name]bool
	exceptions []hermeticException
	used       map[int]bool // of the exceptions, by index
}

// checkHermetic finds what makes a test of every change fail for the machine's sake:
// another process, elapsed real time that is compared with a limit, a short deadline, a
// port that was closed and is used again, a port that the test chose. It judges the
// tests that are compiled without slowTag, and the harnesses that they import.
func checkHermetic(tree *Tree, report *Report) { judgeHermetic(tree, report, hermeticExceptions) }

func judgeHermetic(tree *Tree, report *Report, exceptions []hermeticException) {
	h := hermetic{tree: tree, report: report, exceptions: exceptions, starters: reaching(ownCalls(tree), starters),
		used: make(map[int]bool)}
	judged := hermeticFiles(tree)
	for file := range judged { // order-free: findings are sorted
		imports := file.Imports()
		ast.Inspect(file.Syntax, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok && h.starters[callee(file, imports, call)] {
				h.addf(file, node.Pos(), ofProcess, "a test that starts another process has the build tag %s", slowTag)
			}
			h.judge(file, node, false)
			return true
		})
		for fn := range file.funcs() {
			h.checkReuse(file, fn)
		}
	}
	inRealTime(tree, func(file *File, visit func(func(ast.Node))) {
		if judged[file] {
			visit(func(node ast.Node) { h.judge(file, node, true) })
			h.checkElapsed(file, visit)
		}
	})
	for i, e := range h.exceptions {
		path, _, _ := strings.Cut(e.place, ":")
		at := slices.IndexFunc(tree.Files, func(f *File) bool { return f.Path == path })
		if at >= 0 && !h.used[i] {
			report.addLine(tree.Files[at], 1, "the exception %s (%s) excuses nothing: remove it from hermeticExceptions",
				e.place, e.kind)
		}
	}
}

// ownCalls are the calls of functions to others of their package and to the starters:
// what another package starts is its own.
func ownCalls(tree *Tree) map[name]map[name]bool {
	calls := tree.calls(false)
	for caller, called := range calls { // order-free: each by itself
		for one := range called { // order-free: each by itself
			if one.importPath != caller.importPath && !starters[one] {
				delete(called, one)
			}
		}
	}
	return calls
}

// judge looks for the habits in one node.
func (h *hermetic) judge(file *File, node ast.Node, realTime bool) {
	switch node.(type) {
	case *ast.CallExpr, *ast.CompositeLit:
	default:
		return
	}
	text := h.tree.text(file, node)
	for _, habit := range habits {
		if habit.realTime == realTime && habit.text.MatchString(text) &&
			!(file.Package() == portPackage && habit.kind == ofReuse) {
			h.addf(file, node.Pos(), habit.kind, "%s", habit.instead)
		}
	}
}

// elapsed is what makes an expression elapsed real time.
var elapsed = regexp.MustCompile(`time\.(?:Since|Until)\(|time\.Now\(\)\.Sub\(|\.Sub\(time\.Now\(\)\)`)

// checkElapsed finds comparisons of elapsed real time in one declaration, whose nodes in
// real time visit shows: of time.Since and its likes, and of a name that the declaration
// gives to what is computed from one.
func (h *hermetic) checkElapsed(file *File, visit func(func(ast.Node))) {
	words := make(map[string]bool)
	is := func(expr ast.Expr) bool {
		text := h.tree.text(file, expr)
		return computes(expr) && (elapsed.MatchString(text) ||
			slices.ContainsFunc(word.FindAllString(text, -1), func(w string) bool { return words[w] }))
	}
	for before := -1; before < len(words); { // a name may be assigned from a later one, in a loop
		before = len(words)
		visit(func(node ast.Node) {
			if assign, ok := node.(*ast.AssignStmt); ok && len(assign.Lhs) == len(assign.Rhs) {
				for i, value := range assign.Rhs {
					if is(value) {
						left, _, _ := strings.Cut(h.tree.text(file, assign.Lhs[i]), "[")
						words[left[strings.LastIndex(left, ".")+1:]] = true
					}
				}
			}
			if loop, ok := node.(*ast.RangeStmt); ok && loop.Value != nil && is(loop.X) {
				words[h.tree.text(file, loop.Value)] = true
			}
		})
	}
	visit(func(node ast.Node) {
		if compared, ok := node.(*ast.BinaryExpr); ok && (is(compared.X) || is(compared.Y)) &&
			slices.Contains([]token.Token{token.LSS, token.LEQ, token.GTR, token.GEQ}, compared.Op) {
			h.addf(file, node.Pos(), ofElapsed, "%s", onRealTime)
		}
	})
}

// word is a name, be it of a variable or a field.
var word = regexp.MustCompile(`\w+`)

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

// address is the address of a listener, or of a server of httptest, by its variable.
const address = `\b%s\.(?:Addr\(\)|LocalAddr\(\)|URL)`

// bound is an assignment of what holds a port to a variable.
var bound = regexp.MustCompile(`^(\w+)(?:, \w+)? :?= (?:net\.Listen\w*\(|httptest\.New\w*Server\()`)

// checkReuse finds ports that a function binds, closes and hands on: between the close
// and the next bind the kernel may give the port to another process. The function closes
// the listener before it reads the address or a text that it made of it, or it closes
// it with defer and returns the address.
func (h *hermetic) checkReuse(file *File, fn *ast.FuncDecl) {
	var inOrder []ast.Stmt // without those of function literals, which run at another time
	ast.Inspect(fn, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncLit:
			return false
		case *ast.AssignStmt, *ast.ExprStmt, *ast.DeferStmt, *ast.ReturnStmt:
			inOrder = append(inOrder, n.(ast.Stmt))
		}
		return true
	})
	for i, stmt := range inOrder {
		if found := bound.FindStringSubmatch(h.tree.text(file, stmt)); found != nil {
			if pos := h.reused(file, fn, found[1], inOrder[i+1:]); pos.IsValid() {
				h.addf(file, pos, ofReuse,
					"%s is closed, and its port may be another's by now: hand the listener itself on, or take an address of %s",
					found[1], portPackage)
			}
		}
	}
}

// reused returns the statement that uses the address of a listener after its end.
func (h *hermetic) reused(file *File, fn *ast.FuncDecl, listener string, after []ast.Stmt) token.Pos {
	names, closed := fmt.Sprintf(address, listener), ""
	for _, stmt := range after {
		text := h.tree.text(file, stmt)
		if assign, ok := stmt.(*ast.AssignStmt); ok && regexp.MustCompile(names).MatchString(text) && closed != "Close" {
			// A text or an address of it; not what a server answered.
			if left := h.tree.text(file, assign.Lhs[0]); left != "err" && left != "_" &&
				!regexp.MustCompile(`\bhttp\.|\.Do\(|\.Get\(`).MatchString(text) {
				names += `|\b` + regexp.QuoteMeta(left) + `\b`
			}
		}
		ret, returns := stmt.(*ast.ReturnStmt)
		bare := returns && len(ret.Results) == 0 && fn.Type.Results != nil &&
			regexp.MustCompile(names).MatchString(h.tree.text(file, fn.Type.Results))
		switch {
		case strings.HasPrefix(text, listener+" = "):
			return token.NoPos // the variable holds another listener
		case text == "defer "+listener+".Close()":
			closed = "defer"
		case strings.HasSuffix(text, listener+".Close()"):
			closed = "Close"
		case closed == "Close" && regexp.MustCompile(names).MatchString(text),
			closed == "defer" && returns && (bare || regexp.MustCompile(names).MatchString(text)):
			return stmt.Pos()
		}
	}
	return token.NoPos
}

// addf records a finding that no exception excuses.
func (h *hermetic) addf(file *File, pos token.Pos, kind, format string, args ...any) {
	place := file.Path + ":"
	for fn := range file.funcs() {
		if fn.Pos() <= pos && pos < fn.End() {
			place += fn.Name.Name
		}
	}
	for i, e := range h.exceptions {
		if e.kind == kind && (e.place == place || e.place == file.Path) {
			h.used[i] = true
			return
		}
	}
	h.report.Addf(file, pos, format, args...)
}

// hermeticFiles returns the files that are judged: tests that are compiled without
// slowTag, and the harnesses that these import, directly or through another.
func hermeticFiles(tree *Tree) map[*File]bool {
	judged, harnesses := make(map[*File]bool), make(map[string]bool)
	for before := -1; before != len(judged); {
		before = len(judged)
		for _, file := range tree.Files {
			if judged[file] || !file.Test() && !harnesses[file.Package()] || !withoutSlowTag(file) {
				continue
			}
			judged[file] = true
			for _, spec := range file.Syntax.Imports {
				if pkg, ours := housePackage(importPath(spec)); ours && within(pkg, "test") && pkg != waitPackage {
					harnesses[pkg] = true
				}
			}
		}
	}
	return judged
}

// withoutSlowTag reports whether some build without slowTag compiles the file.
func withoutSlowTag(file *File) bool {
	for _, group := range file.Syntax.Comments {
		if group.Pos() > file.Syntax.Package {
			break
		}
		for _, comment := range group.List {
			expr, err := constraint.Parse(comment.Text)
			if err != nil {
				continue // a comment of another kind
			}
			if !expr.Eval(func(tag string) bool { return tag != slowTag }) && !expr.Eval(func(string) bool { return false }) {
				return false
			}
		}
	}
	return true
}
