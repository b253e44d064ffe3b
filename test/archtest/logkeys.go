package archtest

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// keysPage documents the keys of the log, each in a row of its table "Keys".
const keysPage = "docs/monitoring.md"

// levels are the methods of slog.Logger that take a message and keys, with the
// number of arguments before the first key.
var levels = map[string]int{
	"Debug": 1, "Info": 1, "Warn": 1, "Error": 1,
	"DebugContext": 2, "InfoContext": 2, "WarnContext": 2, "ErrorContext": 2,
	"With": 0,
}

// attrs are slog's functions that make an attribute; their first argument is a key.
var attrs = map[string]bool{"String": true, "Int": true, "Int64": true, "Uint64": true, "Float64": true, "Bool": true,
	"Time": true, "Duration": true, "Any": true}

// loggers are the names under which the tree keeps loggers. Rules know no types:
// t.Error and http.Error are other things.
var loggers = regexp.MustCompile(`(?i)^(log|logger|failing|again)$`)

var snakeCase = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// checkLogKeys finds keys of the log that are not constants, not in snake_case,
// or not in the table of keysPage: a second name for one thing is in no search.
func checkLogKeys(tree *Tree, report *Report) {
	known, err := documentedKeys(filepath.Join(tree.Root, keysPage))
	for _, file := range tree.Files {
		if file.Test() || file.Generated() || harness(file.Package()) {
			continue
		}
		ast.Inspect(file.Syntax, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok {
				for _, key := range logKeys(file, call) {
					if err != nil {
						report.Addf(file, key.Pos(), "read the table of log keys: %v", err)
						return false
					}
					judgeKey(file, key, known, report)
				}
			}
			return true
		})
	}
}

// logKeys returns the arguments of a call that are keys of the log.
func logKeys(file *File, call *ast.CallExpr) (keys []ast.Expr) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return nil
	}
	if target, name, ok := selected(file.Imports(), call.Fun); ok {
		if _, constant := text(call.Args[0]); target == "log/slog" && attrs[name] && constant {
			return call.Args[:1]
		}
		return nil
	}
	before, ok := levels[method.Sel.Name]
	if !ok || !loggers.MatchString(lastName(method.X)) || call.Ellipsis.IsValid() {
		return nil
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

func judgeKey(file *File, key ast.Expr, known map[string]bool, report *Report) {
	name, constant := text(key)
	switch {
	case !constant:
		report.Addf(file, key.Pos(), "a key of the log is a constant text")
	case !snakeCase.MatchString(name):
		report.Addf(file, key.Pos(), "log key %q: use snake_case", name)
	case !known[name]:
		report.Addf(file, key.Pos(), "log key %q is not in the table of %s: use the name that stands there, or add it", name,
			keysPage)
	}
}

// text returns the value of a string literal.
func text(expr ast.Expr) (value string, ok bool) {
	literal, ok := expr.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(literal.Value)
	return value, err == nil
}

// lastName returns c of a.b.c and of a.b.c().
func lastName(expr ast.Expr) string {
	switch expr := expr.(type) {
	case *ast.Ident:
		return expr.Name
	case *ast.SelectorExpr:
		return expr.Sel.Name
	case *ast.CallExpr:
		return lastName(expr.Fun)
	}
	return ""
}

// documentedKeys reads the table under the heading "Keys": the first cell of a
// row names one or more keys in backquotes.
func documentedKeys(path string) (map[string]bool, error) {
	page, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	keys := make(map[string]bool)
	_, section, _ := strings.Cut(string(page), "\n### Keys\n")
	section, _, _ = strings.Cut(section, "\n#")
	for line := range strings.Lines(section) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, quoted := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
			keys[quoted[1]] = strings.HasPrefix(line, "|")
		}
	}
	return keys, nil
}
