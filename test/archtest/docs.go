package archtest

import "go/ast"

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

// checkDocs wants a comment on every package, exported function, method of an exported
// type, exported type, and exported constant or variable.
func checkDocs(file *File, report report) {
	if file.tree.documents()[file.Package()] == "" {
		report(file.line(file.Syntax.Package), "package %s has no package comment", file.Package())
	}
	for _, d := range file.declared() {
		if d.IsExported() && d.doc == "" && (d.receiver == "" || ast.IsExported(d.receiver)) {
			report(file.line(d.Pos()), "exported %s %s has no comment", d.kind, d.Name)
		}
	}
}
