package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// function is where a function stands: the file relative to the root of the module, the first
// line and the last.
type function struct {
	file        string
	first, last int
}

// functions returns the functions that a fault is in: the one around it, of a constant those
// of the package that name it. There are none where others may feel it: the fault is in a
// variable of the package, or its constant is exported, or makes another one.
func (f fault) functions(root string) ([]function, error) {
	dir := filepath.Join(root, filepath.FromSlash(path.Dir(f.file)))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look for the functions of %s: %w", f.at(), err)
	}
	files, parsed := token.NewFileSet(), make(map[string]*ast.File)
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := parser.ParseFile(files, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("look for the functions of %s: %w", f.at(), err)
		}
		parsed[path.Join(path.Dir(f.file), name)] = source
	}
	at := func(file string, n ast.Node) function {
		return function{file, files.Position(n.Pos()).Line, files.Position(n.End()).Line}
	}
	for _, d := range parsed[f.file].Decls {
		if here := at(f.file, d); here.first > f.line || f.line > here.last {
			continue
		}
		if _, ok := d.(*ast.FuncDecl); ok {
			return []function{at(f.file, d)}, nil
		}
		return naming(f.constant(files, d), parsed, at), nil
	}
	return nil, nil
}

// constant returns the name of the constant that the fault is in the value of, if the
// declaration has it.
func (f fault) constant(files *token.FileSet, d ast.Decl) (name string) {
	ast.Inspect(d, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, value := range spec.Values {
			if files.Position(value.Pos()).Offset == f.start && i < len(spec.Names) {
				name = spec.Names[i].Name
			}
		}
		return false
	})
	return name
}

// naming returns the functions that name a constant, if nothing else of the package does.
func naming(constant string, parsed map[string]*ast.File, at func(string, ast.Node) function) (found []function) {
	if constant == "" || ast.IsExported(constant) {
		return nil
	}
	elsewhere := 0 // its declaration is one
	for file, source := range parsed {
		for _, d := range source.Decls {
			named := 0
			ast.Inspect(d, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && id.Name == constant {
					named++
				}
				return true
			})
			switch d.(type) {
			case *ast.FuncDecl:
				if named > 0 {
					found = append(found, at(file, d))
				}
			default:
				elsewhere += named
			}
		}
	}
	if elsewhere > 1 {
		return nil
	}
	return found
}
