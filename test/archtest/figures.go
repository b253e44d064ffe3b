package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"io"
	"maps"
	"slices"
	"strings"
)

// Figures measure the code that ships: Go outside test, whether in a peer, in another
// program of the packages or in what builds these. Tests and generated files do not
// count.
type Figures struct {
	Lines      int    // that are neither blank nor comment alone
	Functions  []int  // lines of each, ascending
	CalledOnce int    // functions whose name occurs once next to their declaration
	Structs    []Size // by fields, the largest first
	MethodSets []Size // by methods of a receiver, the largest first
	Exported   []Size // exported names of packages, most first
	Interfaces []Size // with more than three methods, the largest first
	Harness    int    // lines of code of the largest harnesses, without their tests
}

// harnesses are the packages whose lines Figures.Harness counts, with those below them.
var harnesses = []string{"test/mutants", "test/labtest", "test/simtest"}

// Size is the size of what a name stands for.
type Size struct {
	Name string
	N    int
}

// Measure takes the figures of a tree.
func Measure(tree *Tree) Figures {
	m := measure{tree: tree, methods: make(map[string]int), exported: make(map[string]int), mentions: make(map[string]int)}
	for _, file := range tree.Files {
		if ships(file) {
			m.file(file)
		}
		if !file.Test() && slices.ContainsFunc(harnesses, func(h string) bool { return within(file.Package(), h) }) {
			m.out.Harness += codeLines(file.Source)
		}
	}
	for _, name := range m.declared {
		if m.mentions[name] == 2 { // its declaration, and one call
			m.out.CalledOnce++
		}
	}
	slices.Sort(m.out.Functions)
	m.out.MethodSets, m.out.Exported = sizes(m.methods), sizes(m.exported)
	largestFirst(m.out.Structs)
	largestFirst(m.out.Interfaces)
	return m.out
}

// ships reports whether a file is the product's: written by hand, no test, and outside
// test, where the harnesses are.
func ships(file *File) bool {
	return !file.Test() && !file.Generated() && !within(file.Package(), "test")
}

// measure gathers the figures.
type measure struct {
	tree     *Tree
	out      Figures
	methods  map[string]int // by package and receiver
	exported map[string]int // by package
	declared []string       // names of functions and methods
	mentions map[string]int // of a name, anywhere
}

func (m *measure) file(file *File) {
	pkg := file.Package()
	m.out.Lines += codeLines(file.Source)
	ast.Inspect(file.Syntax, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok {
			m.mentions[name.Name]++
		}
		return true
	})
	for _, decl := range file.Syntax.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			m.function(pkg, d)
		case *ast.GenDecl:
			m.declaration(pkg, d)
		}
	}
}

func (m *measure) function(pkg string, d *ast.FuncDecl) {
	m.out.Functions = append(m.out.Functions, m.tree.Line(d.End())-m.tree.Line(d.Pos())+1)
	m.declared = append(m.declared, d.Name.Name)
	if d.Recv != nil {
		m.methods[pkg+"."+strings.TrimPrefix(receiverName(d), "*")]++
	}
	if d.Name.IsExported() {
		m.exported[pkg]++
	}
}

func (m *measure) declaration(pkg string, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.IsExported() {
					m.exported[pkg]++
				}
			}
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				m.exported[pkg]++
			}
			switch t := s.Type.(type) {
			case *ast.StructType:
				m.out.Structs = append(m.out.Structs, Size{pkg + "." + s.Name.Name, t.Fields.NumFields()})
			case *ast.InterfaceType:
				if n := t.Methods.NumFields(); n > 3 {
					m.out.Interfaces = append(m.out.Interfaces, Size{pkg + "." + s.Name.Name, n})
				}
			}
		}
	}
}

func sizes(counts map[string]int) (out []Size) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, Size{name, counts[name]})
	}
	largestFirst(out)
	return out
}

func largestFirst(all []Size) {
	slices.SortStableFunc(all, func(a, b Size) int { return cmp.Compare(b.N, a.N) })
}

// Write prints the figures, the longest lists up to their fifth entry.
func (f Figures) Write(w io.Writer) error {
	at := func(share float64) int {
		if len(f.Functions) == 0 {
			return 0
		}
		return f.Functions[min(int(share*float64(len(f.Functions))), len(f.Functions)-1)]
	}
	var b strings.Builder
	fmt.Fprintf(&b, "lines of code            %d\n", f.Lines)
	fmt.Fprintf(&b, "functions                %d, of %d lines (median), %d (p90), %d (longest)\n", len(f.Functions),
		at(0.5), at(0.9), at(1))
	fmt.Fprintf(&b, "called once              %.0f %%\n", 100*float64(f.CalledOnce)/float64(max(len(f.Functions), 1)))
	fmt.Fprintf(&b, "interfaces over three    %d%s\n", len(f.Interfaces), first(f.Interfaces))
	fmt.Fprintf(&b, "structs over 15 fields   %d%s\n", over(f.Structs, 15), first(f.Structs))
	fmt.Fprintf(&b, "types over 30 methods    %d%s\n", over(f.MethodSets, 30), first(f.MethodSets))
	fmt.Fprintf(&b, "exported names           %s\n", strings.TrimPrefix(first(f.Exported), "; "))
	fmt.Fprintf(&b, "lines of harness         %d in %s\n", f.Harness, strings.Join(harnesses, ", "))
	_, err := io.WriteString(w, b.String())
	return err
}

// over counts what is larger than a bound.
func over(all []Size, bound int) (n int) {
	for _, s := range all {
		if s.N > bound {
			n++
		}
	}
	return n
}

// first lists the largest.
func first(all []Size) (text string) {
	for i, s := range all[:min(len(all), 5)] {
		sep := "; "
		if i > 0 {
			sep = ", "
		}
		text += fmt.Sprintf("%s%s %d", sep, s.Name, s.N)
	}
	return text
}
