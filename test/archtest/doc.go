// Package archtest enforces the structure of the house (docs/design.md#packages) and the
// rules of CONTRIBUTING.md on the source text itself: which package may import which,
// what the state machine may never touch, what must be documented, how large a thing
// may grow, and what pages say of the code.
//
// It reads the tree with go/parser and needs no built package, so a broken or
// unfinished package is still judged; only map ranges in fsm, and what functions assign,
// need types, which are found as far as packages have them. Its own test runs every rule
// against small sources that must be flagged, because a rule that cannot fail is worth
// nothing.
package archtest

import (
	"cmp"
	"fmt"
	"slices"
)

// Finding is one violation: where it is, which rule it breaks and what to do.
type Finding struct {
	File    string // slash-separated, relative to the root of the tree
	Line    int    // first line is 1
	Rule    string // name of the rule
	Message string // what is wrong and what would be right
}

// String formats the finding as "file:line: rule: message", which editors jump to.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.File, f.Line, f.Rule, f.Message)
}

// report notes a violation on a line of the file that is judged.
type report func(line int, format string, args ...any)

// rule is one property of files.
type rule struct {
	name  string
	note  string           // a comment with it excuses its line and the next, or the function that it documents
	of    func(*File) bool // the files that are judged
	check func(*File, report)
}

// rules lists every rule; adding one means adding fixtures to its test, too.
func rules() []rule {
	return []rule{
		{"imports", "", (*File).isGo, checkImports},
		{"doc", "", (*File).written, checkDocs},
		{"init", "", (*File).isGo, matching(atImport)},
		{"global", "", (*File).written, checkGlobals},
		{"pure", "", pure, matching(impure...)},
		{"maporder", "order-free: ", ordered, checkMapOrder},
		{"size", "", bounded, checkSize},
		{"logkeys", "", logging, checkLogKeys},
		{"class", "", classless, matching(servers)},
		{"sleep", "", (*File).waits, matching(realWait)},
		{"hermetic", "not hermetic: ", (*File).hermetic, checkHermetic},
		{"links", "", linking, checkLinks},
		{"names", "", naming, checkNames},
		{"words", "", plain, checkWords},
	}
}

// judge returns what the rule finds, one finding of a kind for each line, sorted by place.
func (r rule) judge(tree *Tree) (findings []Finding) {
	for _, file := range tree.all() {
		if !r.of(file) {
			continue
		}
		var excused lines
		if r.note != "" {
			excused = file.noted(r.note)
		}
		r.check(file, func(line int, format string, args ...any) {
			if !excused[line] {
				findings = append(findings, Finding{file.Path, line, r.name, fmt.Sprintf(format, args...)})
			}
		})
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(findings)
}
