// Package archtest enforces the structure of the house (docs/design.md#packages) and the
// house rules of CONTRIBUTING.md on the source text itself: which package may
// import which, what the state machine may never touch, what must be
// documented, and how large a thing may grow.
//
// It reads the tree with go/parser and needs no built package, so a broken or
// unfinished package is still judged; only map ranges in pure packages need
// types. Its own test runs every rule against small sources that must be
// flagged, because a rule that cannot fail is worth nothing.
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
	Rule    string // name of the rule, as in Rules
	Message string // what is wrong and what would be right
}

// String formats the finding as "file:line: rule: message", which editors jump to.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.File, f.Line, f.Rule, f.Message)
}

// Rule is one property of the source tree. Check appends a finding to the
// report for every place that breaks it and must not change the tree.
type Rule struct {
	Name  string
	Why   string
	Check func(*Tree, *Report)
}

// Rules lists every rule; adding one means adding fixtures to its test too.
func Rules() []Rule {
	return []Rule{
		{"imports", "imports point downward only (docs/design.md#packages)", checkImports},
		{"drivers", "only trivet-import has database drivers in it (docs/design.md#kept)", checkBans("drivers")},
		{"templates", "no method is called by a name that the linker does not know (docs/design.md#kept)",
			checkBans("templates")},
		{"raft", "only raftstore, test/simtest and test/attacktest know hashicorp/raft (docs/design.md#packages)",
			checkBans("raft")},
		{"raftguard", "what corrects raft could leave the repository (docs/design.md#packages)", checkRaftguard},
		{"harness", "test harnesses stay out of the product (docs/design.md#packages)", checkBans("harness")},
		{"doc", "every package and exported name is documented (docs/design.md#packages)", checkDocs},
		{"citation", "a comment that cites a page leads to it", checkCitations},
		{"init", "nothing happens at import", checkInit},
		{"global", "clock, randomness, metrics and logger are handed in; no mutable globals", checkGlobals},
		{"pure", "values and rules do no I/O, start no goroutine and read no clock (docs/design.md#packages)", checkPure},
		{"maporder", "the order of a map never reaches the replicated state (docs/design.md#packages)", checkMapOrder},
		{"filesize", "a file is one idea", checkFileSize},
		{"funcsize", "a function fits a screen", checkFuncSize},
		{"columns", "a line is read next to its difference", checkColumns},
		{"logkeys", "a thing has one name in the log, and people search for it", checkLogKeys},
		{"sleep", "a test that sleeps outside a synctest bubble is slow and flaky", checkSleep},
		{"class", "requests are admitted by what they cost (docs/design.md#admission)", checkClass},
		{"hermetic", "a test of every change fails for the change only", checkHermetic},
	}
}

// Check runs every rule over the tree and returns the findings sorted by place.
func Check(tree *Tree) []Finding {
	var findings []Finding
	for _, rule := range Rules() {
		report := &Report{rule: rule.Name, tree: tree}
		rule.Check(tree, report)
		findings = append(findings, report.findings...)
	}
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule))
	})
	return findings
}
