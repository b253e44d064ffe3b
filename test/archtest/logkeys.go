package archtest

import (
	"go/ast"
	"regexp"
	"strconv"
	"strings"
)

// keysPage documents the keys of the log, each in a row of its table "Keys".
const keysPage = "docs/monitoring.md"

var (
	// logged matches the beginning of a call of slog.Logger that takes a message, and keys.
	// Rules know no types: t.Error and http.Error are other things, so it has the names under
	// which the tree keeps loggers.
	logged = regexp.MustCompile(`(?:^|\.)(?i:log|logger|failing|again)(?:\([^()]*\))?\.` +
		`(With|(?:Debug|Info|Warn|Error)(Context)?)$`)
	// attribute matches slog's functions that make one; their first argument is a key.
	attribute = regexp.MustCompile(`^slog\.(?:String|Int|Int64|Uint64|Float64|Bool|Time|Duration|Any)$`)
	snakeCase = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
)

// logging reports whether what a file logs is the product's.
func logging(file *File) bool { return file.written() && !harness(file.Package()) }

// checkLogKeys finds keys of the log that are not constants, not in snake_case,
// or not in the table of keysPage: a second name for one thing is in no search.
func checkLogKeys(file *File, report report) {
	for call := range each[*ast.CallExpr](file.Syntax) {
		for _, key := range logKeys(file, call) {
			name, err := strconv.Unquote(file.text(key))
			switch {
			case err != nil:
				report(file.line(key.Pos()), "a key of the log is a constant text")
			case !snakeCase.MatchString(name):
				report(file.line(key.Pos()), "log key %q: use snake_case", name)
			case !file.tree.keys[name]:
				report(file.line(key.Pos()), "log key %q is not in the table of %s: use the name that stands there, or add it",
					name, keysPage)
			}
		}
	}
}

// logKeys returns the arguments of a call that are keys of the log.
func logKeys(file *File, call *ast.CallExpr) (keys []ast.Expr) {
	function := file.text(call.Fun)
	if attribute.MatchString(function) && len(call.Args) > 0 {
		if _, literal := call.Args[0].(*ast.BasicLit); literal { // another is a variable's
			return call.Args[:1]
		}
	}
	found := logged.FindStringSubmatch(function)
	if found == nil || call.Ellipsis.IsValid() {
		return nil
	}
	before := 1 + len(found[2])/len("Context") // arguments, the message and a context
	if found[1] == "With" {
		before = 0
	}
	for rest := call.Args[min(before, len(call.Args)):]; len(rest) > 0; {
		if _, made := rest[0].(*ast.CallExpr); made { // an attribute
			rest = rest[1:]
			continue
		}
		keys = append(keys, rest[0])
		rest = rest[min(2, len(rest)):]
	}
	return keys
}

// firstCell matches the first cell of a row of a table.
var firstCell = regexp.MustCompile(`(?m)^\|[^|\n]*`)

// keysOf reads the table under the heading "Keys" of a page: the first cell of a row names
// one or more keys in backquotes.
func keysOf(page string) map[string]bool {
	keys := make(map[string]bool)
	_, section, _ := strings.Cut(page, "\n### Keys\n")
	section, _, _ = strings.Cut(section, "\n#")
	for _, cell := range firstCell.FindAllString(section, -1) {
		for _, key := range quoted.FindAllString(cell, -1) {
			keys[strings.Trim(key, "`")] = true
		}
	}
	return keys
}
