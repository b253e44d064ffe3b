package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// harnesses are the packages whose lines the figures count as lines of harness, with those
// below them and without their tests.
var harnesses = []string{"test/mutants", "test/labtest", "test/simtest"}

// measure is what the figures of a tree are made of: the code that ships.
type measure struct {
	lines, harness, assets int
	functions              []int // lines of each, ascending
	calledOnce             int   // functions whose name occurs once next to their declaration

	// By names: fields of structs, methods of receivers, of interfaces, exported names and files of packages.
	structs, methods, interfaces, exported, files map[string]int
}

// measured takes the measure of a tree.
func measured(tree *Tree) measure {
	m := measure{structs: make(map[string]int), methods: make(map[string]int), interfaces: make(map[string]int),
		exported: make(map[string]int), files: make(map[string]int)}
	for _, file := range tree.filesOf((*File).written) {
		m.files[file.Package()]++
	}
	for _, file := range tree.all() {
		code := !file.test() && slices.ContainsFunc(harnesses, func(h string) bool { return within(file.Package(), h) })
		switch ext := path.Ext(file.Path); {
		case ext == ".go" && code:
			m.harness += codeLines(file.Source)
		case (ext == ".js" || ext == ".css") && !within(file.Path, "test"):
			m.assets += codeLines(file.Source)
		}
	}
	mentions, shipped := make(map[string]int), tree.filesOf((*File).ships)
	for _, file := range shipped {
		m.lines += codeLines(file.Source)
		for ident := range each[*ast.Ident](file.Syntax) {
			mentions[ident.Name]++
		}
		m.declarations(file)
	}
	for _, file := range shipped {
		for _, fn := range file.funcs {
			if mentions[fn.Name.Name] == 2 { // its declaration, and one call
				m.calledOnce++
			}
		}
	}
	slices.Sort(m.functions)
	return m
}

// declarations takes the measure of what a file declares.
func (m *measure) declarations(file *File) {
	pkg := file.Package()
	for _, d := range file.declared() {
		if d.IsExported() {
			m.exported[pkg]++
		}
		if d.receiver != "" {
			m.methods[pkg+"."+d.receiver]++
		}
		switch n := d.node.(type) {
		case *ast.FuncDecl:
			m.functions = append(m.functions, file.line(n.End())-file.line(n.Pos())+1)
		case *ast.TypeSpec:
			switch t := n.Type.(type) {
			case *ast.StructType:
				m.structs[pkg+"."+d.Name] = t.Fields.NumFields()
			case *ast.InterfaceType:
				m.interfaces[pkg+"."+d.Name] = t.Methods.NumFields()
			}
		}
	}
}

// Figures tells how large the code that ships is and how it is cut: Go outside test,
// whether in a peer, in another program of the packages or in what builds these. Tests and
// generated files do not count.
func Figures(tree *Tree) string {
	m, arrows := measured(tree), arrows(tree)
	_, circles := floors(arrows)
	lines := func(share float64) int {
		return m.functions[min(int(share*float64(len(m.functions))), len(m.functions)-1)]
	}
	interfaces := over(m.interfaces, maxInterface)
	structs, methods := over(m.structs, maxFields), over(m.methods, maxMethods)
	var b strings.Builder
	for _, row := range []struct{ name, figure string }{
		{"folders at the top", fmt.Sprint(len(tree.Folders))},
		{"arrows between them", fmt.Sprintf("%d, circles reached from %d folders", len(arrows), len(circles))},
		{"lines of code", fmt.Sprint(m.lines)},
		{"functions", fmt.Sprintf("%d, of %d lines (median), %d (p90), %d (longest)", len(m.functions),
			lines(0.5), lines(0.9), lines(1))},
		{"called once", fmt.Sprintf("%.0f %%", 100*float64(m.calledOnce)/float64(len(m.functions)))},
		{"interfaces over three", fmt.Sprintf("%d; %s", len(interfaces), largest(interfaces))},
		{"structs over 15 fields", fmt.Sprintf("%d; %s", len(structs), largest(m.structs))},
		{"types over 30 methods", fmt.Sprintf("%d; %s", len(methods), largest(m.methods))},
		{"exported names", largest(m.exported)},
		{"lines of harness", fmt.Sprintf("%d in %s", m.harness, strings.Join(harnesses, ", "))},
		{"lines of JS and CSS", fmt.Sprint(m.assets)},
	} {
		fmt.Fprintf(&b, "%-24s %s\n", row.name, row.figure)
	}
	return b.String()
}

// over returns what is larger than a bound.
func over(sizes map[string]int, bound int) map[string]int {
	sizes = maps.Clone(sizes)
	maps.DeleteFunc(sizes, func(_ string, n int) bool { return n <= bound })
	return sizes
}

// largest lists the five largest, those of one size in the order of folders.
func largest(sizes map[string]int) string {
	path := func(name string) string { return strings.ToLower(strings.ReplaceAll(name, ".", "/")) }
	names := slices.SortedFunc(maps.Keys(sizes), func(a, b string) int {
		return cmp.Or(cmp.Compare(sizes[b], sizes[a]), cmp.Compare(path(a), path(b)))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, sizes[name])
	}
	return strings.Join(names[:min(len(names), 5)], ", ")
}

// arrow is an import of packages in one folder at the top by packages in another.
type arrow struct{ from, to string }

// arrows returns those between folders, tests and the root not counted.
func arrows(tree *Tree) map[arrow]bool {
	arrows := make(map[arrow]bool)
	for _, file := range tree.filesOf(func(f *File) bool { return !f.test() && f.Package() != "." }) {
		for _, spec := range file.Syntax.Imports {
			target, ours := housePackage(importPath(spec))
			if one := (arrow{top(file.Package()), top(target)}); ours && one.from != one.to && one.to != "." {
				arrows[one] = true
			}
		}
	}
	return arrows
}

// top returns the folder at the top that a package is in.
func top(pkg string) string {
	folder, _, _ := strings.Cut(path.Clean(pkg), "/")
	return folder
}

// floors puts each folder one floor above the highest that it imports, and returns the
// folders that are in a circle, or above one, too.
func floors(arrows map[arrow]bool) (floors map[string]int, circles []string) {
	floors = make(map[string]int)
	for range len(arrows) + 1 { // the longest way takes each arrow once
		for one := range arrows { // order-free: until each has its floor
			floors[one.from] = max(floors[one.from], min(floors[one.to]+1, len(arrows)+1))
		}
	}
	return floors, slices.Sorted(maps.Keys(over(floors, len(arrows))))
}

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
			below[top(pkg)] = append(below[top(pkg)], name+"/ "+phrase(tree.documents[pkg], maxPhrase, ". ", ": ", "; ", " ("))
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
			phrase(tree.documents[room], pictureWidth-pictureIndent, ". "))
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
