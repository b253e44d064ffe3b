package archtest

import (
	"fmt"
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
func (f *File) hermetic() bool { return f.tree.judged()[f] }

func (t *Tree) findJudged() map[*File]bool {
	judged, harnesses := make(map[*File]bool), make(map[string]bool)
	for before := -1; before != len(judged); {
		before = len(judged)
		for _, file := range t.Files {
			if judged[file] || !file.test() && !harnesses[file.Package()] || slowTag.MatchString(file.Source) {
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
	return reaching(calls, starters)
}

// elapsed is what makes an expression elapsed real time.
var elapsed = regexp.MustCompile(`time\.(?:Since|Until)\(|time\.Now\(\)\.Sub\(|\.Sub\(time\.Now\(\)\)`)

// ordering matches what compares with a limit.
var ordering = regexp.MustCompile(`^[<>]=?$`)

// checkElapsed finds comparisons of elapsed real time in one declaration: of time.Since and
// its likes, and of a name that the declaration gives to what is computed from one.
func checkElapsed(file *File, decl ast.Decl, report report) {
	names := make(map[string]bool)
	is := func(expr ast.Expr) bool {
		text := file.text(expr)
		return computes(expr) && !file.inBubble(expr) && (elapsed.MatchString(text) ||
			slices.ContainsFunc(identifier.FindAllString(text, -1), func(word string) bool { return names[word] }))
	}
	for before := -1; before < len(names); { // a name may be assigned from a later one, in a loop
		before = len(names)
		for n := range each[*ast.AssignStmt](decl) {
			for i, value := range n.Rhs {
				if len(n.Lhs) == len(n.Rhs) && is(value) {
					left, _, _ := strings.Cut(file.text(n.Lhs[i]), "[")
					names[left[strings.LastIndex(left, ".")+1:]] = true
				}
			}
		}
		for n := range each[*ast.RangeStmt](decl) {
			if n.Value != nil && is(n.X) {
				names[file.text(n.Value)] = true
			}
		}
	}
	for compared := range each[*ast.BinaryExpr](decl) {
		if (is(compared.X) || is(compared.Y)) && ordering.MatchString(compared.Op.String()) {
			report(file.line(compared.Pos()), "%s", onRealTime)
		}
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
	// bound is an assignment of what holds a port to a variable.
	bound = regexp.MustCompile(`\b(\w+)(?:, \w+)? :?= (?:net\.Listen\w*\(|httptest\.New\w*Server\()`)
	// made is an assignment of something else, from what is no answer of a server.
	made     = regexp.MustCompile(`\b(\w+)(?:\[.*\])?(?:, \w+)? :?= `)
	answered = regexp.MustCompile(`\bhttp\.|\.Do\(|\.Get\(`)
)

// checkReuse finds ports that a function binds, closes and hands on: between the close
// and the next bind the kernel may give the port to another process. The function closes
// the listener before it reads the address or a text that it made of it, or it closes
// it with defer and returns the address. It goes by lines, without those of function
// literals, which run at another time.
func checkReuse(file *File, fn *ast.FuncDecl, report report) {
	lines := strings.Split(file.text(fn), "\n")
	for literal := range each[*ast.FuncLit](fn) {
		for line := file.line(literal.Pos()) + 1; line < file.line(literal.End()); line++ {
			lines[line-file.line(fn.Pos())] = ""
		}
	}
	for i, line := range lines {
		if found := bound.FindStringSubmatch(line); found != nil {
			if after := reused(found[1], lines[i+1:]); after >= 0 {
				report(file.line(fn.Pos())+i+1+after,
					"%s is closed, and its port may be another's by now: hand the listener itself on, or take an address of %s",
					found[1], portPackage)
			}
		}
	}
}

// reused returns the index of the line that uses the address of a listener after its end,
// -1 if there is none.
func reused(listener string, lines []string) int {
	names := fmt.Sprintf(`\b%s\.(?:Addr\(\)|LocalAddr\(\)|URL)`, listener)
	closed, deferred, result := false, false, false
	for i, line := range lines {
		line = strings.TrimSpace(line)
		if condition, ok := strings.CutPrefix(line, "if "); ok { // it may ask what a server answered
			line, _, _ = strings.Cut(condition, ";")
			line = strings.TrimSuffix(line, condition)
		}
		uses := regexp.MustCompile(names).MatchString(line)
		left := made.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, listener+" = "):
			return -1 // the variable holds another listener
		case line == "defer "+listener+".Close()":
			deferred = true
		case strings.HasSuffix(line, listener+".Close()"):
			closed = true
		case closed && uses,
			deferred && strings.HasPrefix(line, "return") && (uses || result && line == "return"):
			return i
		case uses && left != nil && left[1] != "err" && left[1] != "_" && !answered.MatchString(line):
			names += `|\b` + left[1] + `\b`
			result = result || !strings.Contains(line, ":=") // it may be one that has a name
		}
	}
	return -1
}
