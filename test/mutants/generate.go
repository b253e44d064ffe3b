package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// fault is one mutant that was generated, not written by hand: bytes of a source
// file and what becomes of them.
type fault struct {
	file       string // slash-separated, relative to the root of the module
	kind       string
	line       int // of the first byte, from 1
	start, end int // offsets of the bytes
	new        string
}

// The kinds of faults.
const (
	kindRemoved  = "refusal removed"  // an if or case that returns something is never taken
	kindNegated  = "refusal negated"  // it is taken when it must not be, and the other way round
	kindCompared = "comparison"       // < becomes <=, == becomes !=, and so on
	kindHalved   = "constant halved"  // also those that are durations
	kindDoubled  = "constant doubled" //
	kindDefer    = "defer removed"
)

// neighbour is the comparison that a comparison becomes.
var neighbour = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR, token.EQL: token.NEQ,
	token.NEQ: token.EQL,
}

// generate returns every fault that it knows to make in the packages in and below
// the directories, in the order of files and lines.
func generate(root string, dirs []string) ([]fault, error) {
	var all []fault
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(root, filepath.FromSlash(dir)),
			func(file string, d fs.DirEntry, err error) error {
				switch {
				case err != nil:
					return err
				case d.IsDir() && d.Name() == "testdata":
					return fs.SkipDir
				case d.IsDir(), !strings.HasSuffix(file, ".go"), strings.HasSuffix(file, "_test.go"):
					return nil
				}
				if built, err := build.Default.MatchFile(filepath.Dir(file), filepath.Base(file)); err != nil || !built {
					return err
				}
				faults, err := faultsOf(root, file)
				all = append(all, faults...)
				return err
			})
		if err != nil {
			return nil, fmt.Errorf("generate mutants of %s: %w", dir, err)
		}
	}
	return all, nil
}

// faultsOf returns the faults of one file.
func faultsOf(root, file string) ([]fault, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	name, err := filepath.Rel(root, file)
	if err != nil {
		return nil, err
	}
	g := &generator{files: token.NewFileSet(), source: source, name: filepath.ToSlash(name)}
	tree, err := parser.ParseFile(g.files, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		g.node(n)
		return true
	})
	slices.SortStableFunc(g.found, func(a, b fault) int { return a.start - b.start })
	return g.found, nil
}

// generator collects the faults of one file.
type generator struct {
	files  *token.FileSet
	source []byte
	name   string
	found  []fault
}

func (g *generator) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.IfStmt:
		g.refusal([]ast.Expr{n.Cond}, n.Body.List)
	case *ast.SwitchStmt:
		if n.Tag != nil {
			return
		}
		for _, clause := range n.Body.List {
			c := clause.(*ast.CaseClause) // a switch has no other statements
			g.refusal(c.List, c.Body)
		}
	case *ast.BinaryExpr:
		if other, ok := neighbour[n.Op]; ok {
			g.add(kindCompared, n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other.String())
		}
	case *ast.GenDecl:
		if n.Tok != token.CONST {
			return
		}
		for _, spec := range n.Specs {
			g.constants(spec.(*ast.ValueSpec)) // constants have no other specs
		}
	case *ast.DeferStmt:
		g.add(kindDefer, n.Pos(), n.End(), "if false {\n"+g.text(n)+"\n}")
	}
}

// refusal makes the faults of conditions whose statements end by returning a value.
func (g *generator) refusal(conditions []ast.Expr, body []ast.Stmt) {
	if len(body) == 0 {
		return
	}
	last, ok := body[len(body)-1].(*ast.ReturnStmt)
	if !ok || len(last.Results) == 0 || isNil(last.Results[len(last.Results)-1]) {
		return
	}
	for _, c := range conditions {
		g.add(kindRemoved, c.Pos(), c.End(), "false && ("+g.text(c)+")")
		if b, ok := c.(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) {
			continue // the comparison is negated anyway
		}
		g.add(kindNegated, c.Pos(), c.End(), "!("+g.text(c)+")")
	}
}

func isNil(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "nil"
}

// constants makes the faults of numbers and durations. The values of enumerations,
// whose types have names of their own, mean nothing by their size.
func (g *generator) constants(spec *ast.ValueSpec) {
	if id, ok := spec.Type.(*ast.Ident); ok && ast.IsExported(id.Name) {
		return
	}
	for _, value := range spec.Values {
		if !isNumber(value) {
			continue
		}
		g.add(kindHalved, value.Pos(), value.End(), "("+g.text(value)+") / 2")
		g.add(kindDoubled, value.Pos(), value.End(), "2 * ("+g.text(value)+")")
	}
}

// isNumber reports whether a constant is built from at least one number, other than
// 0, and from no text or iota.
func isNumber(e ast.Expr) bool {
	number := false
	plain := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			number = number || n.Value != "0"
			plain = plain && (n.Kind == token.INT || n.Kind == token.FLOAT)
		case *ast.Ident:
			plain = plain && n.Name != "iota"
		}
		return true
	})
	return number && plain
}

func (g *generator) text(n ast.Node) string {
	return string(g.source[g.offset(n.Pos()):g.offset(n.End())])
}

func (g *generator) offset(p token.Pos) int { return g.files.Position(p).Offset }

func (g *generator) add(kind string, from, to token.Pos, text string) {
	at := g.files.Position(from)
	g.found = append(g.found,
		fault{file: g.name, kind: kind, line: at.Line, start: at.Offset, end: g.offset(to), new: text})
}

// pkg is the directory of the fault's package, as go test takes it.
func (f fault) pkg() string { return "./" + path.Dir(f.file) }

// at names the place.
func (f fault) at() string { return fmt.Sprintf("%s:%d", f.file, f.line) }

// mutated returns the content of the fault's file with the fault in it, and the
// lines that differ as a diff without context.
func (f fault) mutated(root string) (content []byte, diff string, err error) {
	source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(f.file)))
	if err != nil {
		return nil, "", fmt.Errorf("read the file to mutate: %w", err)
	}
	if f.end > len(source) {
		return nil, "", fmt.Errorf("%s changed while its mutants were judged", f.file)
	}
	content = slices.Concat(source[:f.start], []byte(f.new), source[f.end:])
	first := strings.LastIndexByte(string(source[:f.start]), '\n') + 1
	rest := strings.IndexByte(string(source[f.end:]), '\n')
	if rest < 0 {
		rest = len(source) - f.end
	}
	before, after := string(source[first:f.end+rest]), string(content[first:f.start+len(f.new)+rest])
	return content, prefixed("-", before) + prefixed("+", after), nil
}

func prefixed(sign, lines string) string {
	return sign + strings.ReplaceAll(lines, "\n", "\n"+sign) + "\n"
}
