package archtest

import (
	"go/ast"
	"go/build/constraint"
	"go/token"
	"net"
	"slices"
	"strconv"
)

// slowTag is the build tag of the tests that `make test` leaves out. They may need
// root, other programs and a machine that is not busy.
const slowTag = "e2e"

// What a test of every change must not do, as the exceptions name it.
const (
	ofProcess = "process" // starts another process
	ofElapsed = "elapsed" // compares elapsed real time with a limit
	ofReuse   = "reuse"   // uses a port again that it has closed
	ofFixed   = "fixed"   // listens on a port that it chose itself
	ofLimit   = "limit"   // gives an event less time than a busy machine needs
)

// checkHermetic finds what makes a test of every change fail for the machine's sake:
// another process, elapsed real time that is compared with a limit, a short deadline, a
// port that was closed and is used again, a port that the test chose. It judges the tests that are
// compiled without slowTag, and the harnesses that they import.
func checkHermetic(tree *Tree, report *Report) {
	judgeHermetic(tree, report, hermeticExceptions)
}

func judgeHermetic(tree *Tree, report *Report, exceptions []hermeticException) {
	h := hermetic{tree: tree, report: report, exceptions: exceptions, starters: startersOf(tree), used: make(map[int]bool)}
	judged := hermeticFiles(tree)
	for _, file := range tree.Files {
		if judged[file] {
			h.checkCalls(file)
			h.checkReuse(file)
		}
	}
	inRealTime(tree, func(file *File, visit func(func(ast.Node))) {
		if judged[file] {
			h.checkElapsed(file, visit)
			h.checkLimits(file, visit)
		}
	})
	h.checkExceptions()
}

// hermetic gathers the findings.
type hermetic struct {
	tree     *Tree
	report   *Report
	starters map[string]map[string]bool // of processes, by package and name

	exceptions []hermeticException
	used       map[int]bool // of the exceptions, by index
}

// addf records a finding that no exception excuses.
func (h *hermetic) addf(file *File, pos token.Pos, kind, format string, args ...any) {
	place := file.Path + ":" + functionAt(file, pos)
	for i, e := range h.exceptions {
		if e.kind == kind && (e.place == place || e.place == file.Path) {
			h.used[i] = true
			return
		}
	}
	h.report.Addf(file, pos, format, args...)
}

// checkExceptions finds the exceptions of the tree's files that excuse nothing.
func (h *hermetic) checkExceptions() {
	for i, e := range h.exceptions {
		if file := h.tree.file(e.file()); file != nil && !h.used[i] {
			h.report.addLine(file, 1, "the exception %s (%s) excuses nothing: remove it from hermeticExceptions", e.place,
				e.kind)
		}
	}
}

// file returns the file of that path, nil if there is none.
func (t *Tree) file(path string) *File {
	if i := slices.IndexFunc(t.Files, func(f *File) bool { return f.Path == path }); i >= 0 {
		return t.Files[i]
	}
	return nil
}

// functionAt names the declared function around pos, "" at package level.
func functionAt(file *File, pos token.Pos) string {
	for fn := range file.funcs() {
		if fn.Pos() <= pos && pos < fn.End() {
			return fn.Name.Name
		}
	}
	return ""
}

// hermeticFiles returns the files that are judged: tests that are compiled without
// slowTag, and the harnesses that these import, directly or through another.
func hermeticFiles(tree *Tree) map[*File]bool {
	judged := make(map[*File]bool)
	harnesses := make(map[string]bool)
	var wanted []string
	take := func(file *File) {
		judged[file] = true
		for _, spec := range file.Syntax.Imports {
			if pkg, ours := housePackage(importPath(spec)); ours && within(pkg, "test") && pkg != waitPackage &&
				!harnesses[pkg] {
				harnesses[pkg] = true
				wanted = append(wanted, pkg)
			}
		}
	}
	for _, file := range tree.Files {
		if file.Test() && withoutSlowTag(file) {
			take(file)
		}
	}
	for len(wanted) > 0 {
		pkg := wanted[0]
		wanted = wanted[1:]
		for _, file := range tree.Files {
			if file.Package() == pkg && !file.Test() && withoutSlowTag(file) {
				take(file)
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

// checkCalls finds starts of processes and ports that the test chose.
func (h *hermetic) checkCalls(file *File) {
	imports := file.Imports()
	ast.Inspect(file.Syntax, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CallExpr:
			if starts(imports, h.starters[file.Package()], n) {
				h.addf(file, n.Pos(), ofProcess, "a test that starts another process has the build tag %s", slowTag)
			}
			h.checkListen(file, imports, n)
		case *ast.CompositeLit:
			if target, name, _ := selected(imports, n.Type); target == "net/http" && name == "Server" &&
				chosenPort(imports, field(n, "Addr")) {
				h.addf(file, n.Pos(), ofFixed, "another process may have this port: listen on port 0 and call Serve")
			}
		}
		return true
	})
}

// checkListen finds a call that binds a port that the test chose, or that was handed
// to it: it can only be one that was bound before.
func (h *hermetic) checkListen(file *File, imports map[string]string, call *ast.CallExpr) {
	address, ok := listenAddress(imports, call)
	if !ok || file.Package() == portPackage {
		return
	}
	if chosenPort(imports, address) {
		h.addf(file, call.Pos(), ofFixed,
			"another process may have this port: listen on port 0 and read the listener's address")
	}
	network, literal := call.Args[len(call.Args)-2].(*ast.BasicLit)
	switch address.(type) {
	case *ast.Ident, *ast.SelectorExpr, *ast.IndexExpr:
		if !literal || network.Value != `"unix"` {
			h.addf(file, call.Pos(), ofReuse,
				"the port may be another's by now: listen on port 0 here, take a listener, or reserve the port with %s",
				portPackage)
		}
	}
}

// listeners are the functions of package net that bind a port, and the index of the address among their arguments.
var listeners = map[string]int{"Listen": 1, "ListenPacket": 1, "ListenTCP": 1, "ListenUDP": 1}

// listenAddress returns the address that a call binds, of package net or of a net.ListenConfig.
func listenAddress(imports map[string]string, call *ast.CallExpr) (ast.Expr, bool) {
	if target, name, _ := selected(imports, call.Fun); target == "net" {
		if at, ok := listeners[name]; ok && len(call.Args) > at {
			return call.Args[at], true
		}
	}
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok && len(call.Args) == 3 &&
		(sel.Sel.Name == "Listen" || sel.Sel.Name == "ListenPacket") {
		return call.Args[2], true
	}
	return nil, false
}

// chosenPort reports whether an address, a text or a net.TCPAddr or net.UDPAddr, has a port other than 0.
func chosenPort(imports map[string]string, address ast.Expr) bool {
	switch a := address.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(a.Value)
		if err != nil {
			return false
		}
		_, port, err := net.SplitHostPort(text)
		return err == nil && port != "0" && port != ""
	case *ast.UnaryExpr:
		return chosenPort(imports, a.X)
	case *ast.CompositeLit:
		if target, _, _ := selected(imports, a.Type); target != "net" {
			return false
		}
		port, ok := field(a, "Port").(*ast.BasicLit)
		return ok && port.Value != "0"
	}
	return false
}

// field returns the value of a field of a literal, nil if it has none.
func field(lit *ast.CompositeLit, name string) ast.Expr {
	for _, element := range lit.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok && key.Name == name {
				return pair.Value
			}
		}
	}
	return nil
}
