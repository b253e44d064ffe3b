package archtest

import (
	"go/ast"
	"regexp"
)

// findDocuments returns the comment of each package: that of its first file that has one.
func (t *Tree) findDocuments() map[string]string {
	docs := make(map[string]string)
	for _, file := range t.Files {
		if pkg := file.Package(); !file.test() && docs[pkg] == "" {
			docs[pkg] = file.Syntax.Doc.Text()
		}
	}
	return docs
}

// checkDocs wants a comment on every package, exported function, method of an
// exported type, exported type, and exported constant or variable. A group of
// constants or variables may share the comment of the group; a group of types is no
// excuse: each is an idea of its own.
func checkDocs(file *File, report report) {
	if file.tree.documents()[file.Package()] == "" {
		report(file.line(file.Syntax.Package), "package %s has no package comment", file.Package())
	}
	for fn := range file.funcs() {
		if ast.IsExported(fn.Name.Name) && fn.Doc.Text() == "" && (fn.Recv == nil || ast.IsExported(receiver(file, fn))) {
			report(file.line(fn.Pos()), "exported function %s has no comment", fn.Name.Name)
		}
	}
	for _, decl := range file.Syntax.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range group.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && s.Doc.Text() == "" && (group.Lparen.IsValid() || group.Doc.Text() == "") {
					report(file.line(s.Pos()), "exported type %s has no comment", s.Name.Name)
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() && group.Doc.Text()+s.Doc.Text()+s.Comment.Text() == "" {
						report(file.line(name.Pos()), "exported %s %s has no comment, nor has its group", group.Tok, name.Name)
					}
				}
			}
		}
	}
}

var identifier = regexp.MustCompile(`\w+`)

// receiver returns the name of a method's type, "" for a function.
func receiver(file *File, fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	return identifier.FindString(file.text(fn.Recv.List[0].Type))
}
