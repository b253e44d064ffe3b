package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// avoided are words that pages, comments and texts of the product do not use
// (CONTRIBUTING.md, "Sentences").
var avoided = []pattern{
	{text: words(`somebody|someone|nobody|no one|anybody|anyone|whoever`),
		instead: "name who: the leader, a peer, an operator, a client"},
	{text: words(`whatever`), instead: "name the thing, or write \"any\""},
	{text: words(`anew`), instead: "again"},
	{text: words(`beside`), instead: "next to"},
	{text: words(`(?:is|are|was|were) told(?: (?:that|of|to|it|once))`),
		instead: "reports, notifies, receives: who does what"},
	{text: words(`what (?:is|was) (?:kept|asked|wanted|needed) (?:by|of)`), instead: "name it: the record, the request"},
	{text: words(`not to be had|none any more`), instead: "say what failed"},
}

// invented are words that were this house's own: an engineer searches for the standard
// term. No Go file has one in a comment, a string or a part of a name.
var invented = []pattern{
	{text: words(`acquaintance|crew|errand|farewell|ferry|favours?|indulge|lent|patience|reign|sighting|sulk|turnstile`),
		instead: "write the field's standard term"},
}

// replicated are the beginnings of refusals that are results in logs of peers, and stay.
var replicated = regexp.MustCompile(`nobody else could lead: |join the host anew|which nobody waits for`)

func words(any string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(?:` + any + `)\b`) }

// plain reports whether a file uses plain words: Go, whose words are listed here, and the
// pages at the top and in docs.
func plain(file *File) bool { return file.isGo() && file.Package() != "test/archtest" || kept(file) }

// kept reports whether a file is a page that tells what is, at the top or in docs:
// CHANGELOG.md tells what was.
func kept(file *File) bool {
	return file.isPage() && slices.Contains([]string{".", "docs"}, file.Package()) && file.Path != "CHANGELOG.md"
}

// wordPart is a word of a name in camel case.
var wordPart = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// shown is the section of CONTRIBUTING.md whose tables show what to avoid.
var shown = regexp.MustCompile(`(?ms)^## Sentences$.*?(?:^## |\z)`)

// checkWords finds the avoided words. What a page quotes is not judged.
func checkWords(file *File, report report) {
	judge := func(line int, text string, all []pattern) {
		text = replicated.ReplaceAllString(text, "")
		for _, a := range all {
			for _, found := range a.text.FindAllString(text, -1) {
				report(line, "%s: %s", found, a.instead)
			}
		}
	}
	if file.isPage() {
		for i, line := range strings.Split(without(file.Source, comment, fence, quoted, shown), "\n") {
			judge(i+1, line, avoided)
		}
		return
	}
	inTexts := invented
	if file.ships() {
		inTexts = slices.Concat(invented, avoided)
	}
	for _, group := range file.Syntax.Comments {
		judge(file.line(group.Pos()), group.Text(), inTexts)
	}
	for literal := range each[*ast.BasicLit](file.Syntax) {
		if text, err := strconv.Unquote(literal.Value); literal.Kind == token.STRING && err == nil {
			judge(file.line(literal.Pos()), text, inTexts)
		}
	}
	for ident := range each[*ast.Ident](file.Syntax) {
		judge(file.line(ident.Pos()), strings.Join(wordPart.FindAllString(ident.Name, -1), " "), invented)
	}
}

// keysPage documents the keys of the log, each in a row of its table "Keys".
const keysPage = "docs/monitoring.md"

var (
	// logged matches the beginning of a call of slog.Logger that takes a message, and keys.
	// Rules know no types: t.Error and http.Error are other things, so it has the names under
	// which the tree keeps loggers.
	logged = regexp.MustCompile(`(?:^|\.)(?i:log|logger|failing|again)(?:\([^()]*\))?\.` +
		`(With|(?:Debug|Info|Warn|Error)(Context)?)$`)
	// attribute matches a call of slog's functions that make one, whose first argument is a
	// key: a literal one, another is a variable's.
	attribute = regexp.MustCompile("^slog\\.(?:String|Int|Int64|Uint64|Float64|Bool|Time|Duration|Any)\\([\"`]")
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
	if attribute.MatchString(file.text(call)) {
		return call.Args[:1]
	}
	found := logged.FindStringSubmatch(file.text(call.Fun))
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
