package archtest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Width and length of what the picture has, in columns.
const (
	pictureWidth  = 150
	pictureIndent = 20
	maxPhrase     = 54 // of what a package below a room is for
	fewWords      = 5  // of a clause that says nothing by itself
)

// picture draws the house: a line for each folder at the top, with its lines of code and
// the first words of its package comment, and below it the packages in it, likewise. A
// folder imports only from floors below its own. What is drawn comes from the source
// alone, so that the picture in ARCHITECTURE.md can be made again after any change.
func picture(tree *Tree) string {
	docs := tree.documents
	floors, _ := floors(arrows(tree))
	floors["."] = len(tree.Files) // main.go is above all
	lines, packages := make(map[string]int), make(map[string]bool)
	for _, file := range tree.filesOf((*File).ships) {
		lines[top(file.Package())] += codeLines(file.Source)
		packages[file.Package()] = true
	}
	below := make(map[string][]string) // of a folder
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		if name, ok := strings.CutPrefix(pkg, top(pkg)+"/"); ok {
			below[top(pkg)] = append(below[top(pkg)], name+"/ "+phrase(docs[pkg], maxPhrase, ". ", ": ", "; ", " ("))
		}
	}
	var b strings.Builder
	last := "."
	for _, room := range slices.SortedFunc(maps.Keys(lines), func(x, y string) int {
		return cmp.Or(cmp.Compare(floors[y], floors[x]), cmp.Compare(x, y))
	}) {
		if floors[room] != floors[last] {
			b.WriteString("\n")
		}
		last = room
		label := strings.Replace(room+"/", "./", "main.go", 1)
		line := fmt.Sprintf("%-12s%5.1fk  %s", label, float64(lines[room])/1000,
			phrase(docs[room], pictureWidth-pictureIndent, ". "))
		b.WriteString(strings.TrimRight(line, " ") + "\n" + wrapped(below[room]))
	}
	return b.String()
}

// phrase is what a package comment says the package is: its beginning without the
// package's name, up to one of the ends and cut to a width.
func phrase(doc string, width int, ends ...string) string {
	words := strings.Fields(doc)
	if len(words) < 3 {
		return ""
	}
	text := strings.TrimPrefix(strings.Join(words[2:], " "), "is ") // without "Package fsm"
	for _, end := range ends {
		text, _, _ = strings.Cut(text, end)
	}
	text = strings.TrimSuffix(text, ".")
	if len(text) <= width {
		return text
	}
	if clause, _, _ := strings.Cut(text, ", "); width == maxPhrase && len(clause) <= width &&
		strings.Count(clause, " ") >= fewWords-1 {
		return clause
	}
	return strings.TrimRight(text[:strings.LastIndexByte(text[:width], ' ')], ",") + " …"
}

// wrapped returns lines of the packages below a room, as many on a line as fit.
func wrapped(items []string) string {
	var lines []string
	for _, item := range items {
		last := len(lines) - 1
		if last >= 0 && utf8.RuneCountInString(lines[last]+item)+2*len("; ") <= pictureWidth {
			lines[last] += "; " + item
		} else {
			lines = append(lines, strings.Repeat(" ", pictureIndent)+item)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, ";\n") + "\n"
}

// pictureSize is the size of a folder in the picture, in thousands of lines.
var pictureSize = regexp.MustCompile(`^(\S+) +[0-9.]+k`)

// pictureDiffers returns the first difference of two pictures that counts, "" if there is
// none. A size may differ by a tenth, or by 300 lines: a change of some lines asks for no
// other picture.
func pictureDiffers(got, want string) string {
	size := func(line string) (thousands float64) {
		_, _ = fmt.Sscanf(line, "%s %fk", new(string), &thousands) // 0 for a line without one
		return thousands
	}
	page, source := strings.Split(got, "\n"), strings.Split(want, "\n")
	if len(page) != len(source) {
		return fmt.Sprintf("%d lines on the page are %d in the source", len(page), len(source))
	}
	for i, line := range source {
		if pictureSize.ReplaceAllString(page[i], "$1") != pictureSize.ReplaceAllString(line, "$1") ||
			math.Abs(size(page[i])-size(line)) > max(0.3, size(line)/10) {
			return fmt.Sprintf("%q on the page is %q in the source", page[i], line)
		}
	}
	return ""
}
