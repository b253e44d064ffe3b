package archtest

import (
	"go/ast"
	"go/token"
	"strings"
)

// checkDocs wants a comment on every package, exported function, method of an
// exported type, exported type, and exported constant or variable. A group of
// constants or variables may share the comment of the group.
func checkDocs(tree *Tree, report *Report) {
	first := make(map[string]*File)
	documented := make(map[string]bool)
	for _, file := range tree.Files {
		if file.Test() || file.Generated() {
			continue
		}
		pkg := file.Package()
		if first[pkg] == nil {
			first[pkg] = file
		}
		documented[pkg] = documented[pkg] || hasText(file.Syntax.Doc)
		for _, decl := range file.Syntax.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				checkFuncDoc(file, decl, report)
			case *ast.GenDecl:
				checkGroupDoc(file, decl, report)
			}
		}
	}
	for _, file := range tree.Files {
		pkg := file.Package()
		if first[pkg] == file && !documented[pkg] {
			report.Addf(file, file.Syntax.Package, "package %s has no package comment", pkg)
		}
	}
}

func checkFuncDoc(file *File, decl *ast.FuncDecl, report *Report) {
	if !decl.Name.IsExported() || hasText(decl.Doc) {
		return
	}
	if decl.Recv == nil {
		report.Addf(file, decl.Pos(), "exported function %s has no comment", decl.Name.Name)
		return
	}
	if receiver := receiverName(decl); ast.IsExported(receiver) {
		report.Addf(file, decl.Pos(), "exported method %s.%s has no comment", receiver, decl.Name.Name)
	}
}

func receiverName(decl *ast.FuncDecl) string {
	expr := decl.Recv.List[0].Type
	for {
		switch inner := expr.(type) {
		case *ast.StarExpr:
			expr = inner.X
		case *ast.IndexExpr:
			expr = inner.X
		case *ast.IndexListExpr:
			expr = inner.X
		case *ast.ParenExpr:
			expr = inner.X
		case *ast.Ident:
			return inner.Name
		default:
			return ""
		}
	}
}

func checkGroupDoc(file *File, decl *ast.GenDecl, report *Report) {
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			// A group of types is no excuse: each is an idea of its own.
			if spec.Name.IsExported() && !hasText(spec.Doc) && (decl.Lparen.IsValid() || !hasText(decl.Doc)) {
				report.Addf(file, spec.Pos(), "exported type %s has no comment", spec.Name.Name)
			}
		case *ast.ValueSpec:
			if hasText(decl.Doc) || hasText(spec.Doc) || hasText(spec.Comment) {
				continue
			}
			checkValueDoc(file, decl.Tok, spec, report)
		}
	}
}

func checkValueDoc(file *File, kind token.Token, spec *ast.ValueSpec, report *Report) {
	for _, name := range spec.Names {
		if name.IsExported() {
			report.Addf(file, name.Pos(), "exported %s %s has no comment, nor has its group", kind, name.Name)
		}
	}
}

func hasText(comment *ast.CommentGroup) bool {
	return comment != nil && strings.TrimSpace(comment.Text()) != ""
}
