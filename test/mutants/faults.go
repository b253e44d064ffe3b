package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

//go:embed faults.txt
var recordFile []byte

// Fault is something that was wrong with Trivet and could have harmed a user: a row of
// faults.txt, of which docs/faults.md is made. A fault is shown by the mutant that takes
// its mend out.
type Fault struct {
	Number   int    // its own for ever: no other fault ever gets it
	Part     string // the heading above it
	Could    string // what could happen, one sentence
	Since    string // the first release that had it, or "unreleased"
	Found    string // a key of finders
	Mended   string // the commit: its hash, a space, its subject
	Mutant   string // the row that takes the mend out
	NotShown string // why there is none
}

// finders are the words for who or what found a fault, in the order of the page.
var finders = []struct{ key, who string }{
	{"attack", "an attack from outside"},
	{"field", "a case that users of like services reported"},
	{"simulation", "the simulation"},
	{"model", "a model of which all states were visited"},
	{"lab", "a test with real processes, kernels or services"},
	{"fuzzer", "random inputs or random damage"},
	{"measurement", "a measurement"},
	{"reading", "reading"},
	{"development", "work on the part or its test"},
}

// releases are what Fault.Since may be, in the order of the page.
var releases = []string{"v0.1.0", "v0.2.0", "unreleased"}

// finder returns what a word of the record means.
func finder(key string) (who string, known bool) {
	i := slices.IndexFunc(finders, func(f struct{ key, who string }) bool { return f.key == key })
	if i < 0 {
		return "", false
	}
	return finders[i].who, true
}

// record returns every fault, in the order of the page.
func record() ([]Fault, error) { return parseFaults("test/mutants/faults.txt", recordFile) }

// parseFaults reads rows as parseRows does: lines "key: value", "fault" first, a blank
// line at the end, "#" before what is for readers. A line "part: HEADING" says where on the
// page the rows below it belong: a new row comes last in the file, for its number. An error
// names the line.
func parseFaults(file string, text []byte) (faults []Fault, err error) {
	part, open, number := "", false, 0
	for line := range bytes.Lines(text) {
		number++
		line := strings.TrimSuffix(string(line), "\n")
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "":
			open = false
			continue
		case strings.HasPrefix(line, "#"):
			continue
		case key == "part" && !open:
			part = value
			continue
		case key == "fault" && !open:
			faults, open = append(faults, Fault{Part: part}), true
		case !open:
			return nil, fmt.Errorf("%s:%d: a row begins with \"fault: NUMBER\", not with %q", file, number, line)
		}
		if err := faults[len(faults)-1].read(key, value); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, number, err)
		}
	}
	return faults, nil
}

// read adds a line of the fault's row.
func (f *Fault) read(key, value string) (err error) {
	switch key {
	case "fault":
		if f.Number, err = strconv.Atoi(value); err != nil || f.Number < 1 {
			return fmt.Errorf("%q is no number of a fault", value)
		}
	case "could":
		f.Could = value
	case "since":
		f.Since = value
	case "found":
		f.Found = value
	case "mended":
		f.Mended = value
	case "mutant":
		f.Mutant = value
	case "not-shown":
		f.NotShown = value
	default:
		return fmt.Errorf("%q is no key of a fault: write could, since, found, mended, mutant or not-shown", key)
	}
	return nil
}

// Marks of docs/faults.md, between which the tables stand.
const (
	tablesBegin = "<!-- faults:begin, written by make faults -->\n"
	tablesEnd   = "<!-- faults:end -->\n"
)

// withTables returns a page with the tables of the record between its marks.
func withTables(page string, faults []Fault, mutants []Mutant) (string, error) {
	before, rest, begun := strings.Cut(page, tablesBegin)
	_, after, ended := strings.Cut(rest, tablesEnd)
	if !begun || !ended {
		return "", errors.New("the page has not both marks, faults:begin and faults:end")
	}
	return before + tablesBegin + "\n" + tables(faults, mutants) + tablesEnd + after, nil
}

// The head of a table of faults, but for its last column, and the line below.
const (
	columns = "| fault | what could happen | since | found by | mended in |"
	rule    = "|---|---|---|---|---|---|\n"
)

// tables prints the record for docs/faults.md: how many were found by what, a table for
// each part, and at last the faults that are not shown.
func tables(faults []Fault, mutants []Mutant) string {
	var b, hidden strings.Builder
	printCounts(&b, faults)
	part := ""
	for _, f := range byPart(faults) {
		who, _ := finder(f.Found)
		row := fmt.Sprintf("| %d | %s | %s | %s | `%s`", f.Number, f.Could, f.Since, who, f.Mended)
		if f.Mutant == "" {
			fmt.Fprintf(&hidden, "%s | %s |\n", row, f.NotShown)
			continue
		}
		if f.Part != part {
			part = f.Part
			fmt.Fprintf(&b, "\n## %s\n\n%s shown by |\n%s", part, columns, rule)
		}
		fmt.Fprintf(&b, "%s | %s |\n", row, shownBy(f, mutants))
	}
	fmt.Fprintf(&b, "\n## Not shown\n\n%s why it is not shown |\n%s%s\n", columns, rule, &hidden)
	return b.String()
}

// byPart puts the faults of each part together, in the order in which the parts begin.
func byPart(faults []Fault) []Fault {
	begins := func(f Fault) int {
		return slices.IndexFunc(faults, func(of Fault) bool { return of.Part == f.Part })
	}
	sorted := slices.Clone(faults)
	slices.SortStableFunc(sorted, func(a, b Fault) int { return begins(a) - begins(b) })
	return sorted
}

// printCounts prints how many faults were found by what, and since when they were there.
func printCounts(b *strings.Builder, faults []Fault) {
	fmt.Fprintf(b, "| found by | faults | since %s |\n|---|---|---|---|---|\n", strings.Join(releases, " | "))
	for _, f := range append(slices.Clone(finders), struct{ key, who string }{"", "all"}) {
		all, since := 0, make([]string, len(releases))
		for i, release := range releases {
			n := 0
			for _, one := range faults {
				if one.Since == release && (f.key == "" || one.Found == f.key) {
					n++
				}
			}
			all, since[i] = all+n, strconv.Itoa(n)
		}
		fmt.Fprintf(b, "| %s | %d | %s |\n", f.who, all, strings.Join(since, " | "))
	}
}

// shownBy names the test that shows a fault, as readers of go test know it.
func shownBy(f Fault, mutants []Mutant) string {
	m, known := mutantOf(f, mutants)
	if !known {
		return ""
	}
	test := strings.NewReplacer("^", "", "$", "").Replace(m.Run)
	return fmt.Sprintf("%s `%s`", strings.TrimPrefix(m.Package, "./"), test)
}

// mutantOf returns the mutant that takes the mend of a fault out.
func mutantOf(f Fault, mutants []Mutant) (m Mutant, known bool) {
	i := slices.IndexFunc(mutants, func(m Mutant) bool { return m.Name == f.Mutant })
	if i < 0 {
		return Mutant{}, false
	}
	return mutants[i], true
}
