package archtest

import (
	"slices"
	"strings"
)

const raftModules = "github.com/hashicorp/raft" // raft, raft-boltdb, …

// checkImports compares every import of the module with the house.
func checkImports(tree *Tree, report *Report) {
	homeless := make(map[string]bool)
	for _, file := range tree.Files {
		importer := file.Package()
		if !hasPlace(importer) {
			if !homeless[importer] {
				report.Addf(file, file.Syntax.Package, "package %s has no place in the house; give it one in test/archtest/house.go", importer)
			}
			homeless[importer] = true
			continue
		}
		if harness(importer) {
			continue
		}
		checkFileImports(file, report)
	}
}

func checkFileImports(file *File, report *Report) {
	for _, spec := range file.Syntax.Imports {
		target, ours := housePackage(importPath(spec))
		if !ours || harness(target) || !hasPlace(target) {
			continue // harness imports are a rule of their own; a homeless target is reported where it lives
		}
		if ok, reason := mayImport(file.Package(), target); !ok {
			report.Addf(file, spec.Pos(), "%s may not import %s: %s", file.Package(), target, reason)
		}
	}
}

// housePackage turns an import path into the name the house uses.
func housePackage(importPath string) (pkg string, ours bool) {
	if importPath == Module {
		return ".", true
	}
	return strings.CutPrefix(importPath, Module+"/")
}

// checkRaft keeps hashicorp/raft behind raftstore. Tests are no exception:
// what a test needs of Raft, raftstore or test/simtest offers.
func checkRaft(tree *Tree, report *Report) {
	for _, file := range tree.Files {
		if room(file.Package()) == "raftstore" || within(file.Package(), "test/simtest") || within(file.Package(), "test/attacktest") {
			continue
		}
		for _, spec := range file.Syntax.Imports {
			if target := importPath(spec); strings.HasPrefix(target, raftModules) {
				report.Addf(file, spec.Pos(), "only raftstore, test/simtest and test/attacktest may import %s", target)
			}
		}
	}
}

// drivers are the modules that reach databases.
var drivers = []string{"database/sql", "github.com/go-sql-driver/", "github.com/jackc/pgx/", "modernc.org/"}

// checkDrivers keeps database drivers out of the daemon: they are 8 MB, and belong to
// trivet-import.
func checkDrivers(tree *Tree, report *Report) {
	const reader = "cli/trivet-import/inspectordb"
	for _, file := range tree.Files {
		from := file.Package()
		if file.Test() || harness(from) || from == reader {
			continue
		}
		for _, spec := range file.Syntax.Imports {
			target := importPath(spec)
			program := strings.HasPrefix(target, Module+"/cli/trivet-import/") && !strings.HasPrefix(from, "cli/trivet-import")
			driver := slices.ContainsFunc(drivers, func(d string) bool { return strings.HasPrefix(target, d) })
			if driver || program || target == Module+"/"+reader && from != "cli/trivet-import/importer" {
				report.Addf(file, spec.Pos(), "%s may not import %s: a peer has no database drivers; %s has them, for trivet-import alone", from, target, reader)
			}
		}
	}
}

// checkTemplates keeps the packages of templates out of the daemon: they look methods up
// by names from text, so that the linker has to keep every exported method of every type
// that is converted to an interface, 6 MB.
func checkTemplates(tree *Tree, report *Report) {
	for _, file := range tree.Files {
		if file.Test() || harness(file.Package()) {
			continue
		}
		for _, spec := range file.Syntax.Imports {
			if target := importPath(spec); target == "text/template" || target == "html/template" {
				report.Addf(file, spec.Pos(), "%s makes the linker keep every method: fill in the text with package strings, and escape with package html", target)
			}
		}
	}
}

// checkHarness keeps harnesses out of the product: only tests and other
// harnesses import them.
func checkHarness(tree *Tree, report *Report) {
	for _, file := range tree.Files {
		if file.Test() || harness(file.Package()) {
			continue
		}
		for _, spec := range file.Syntax.Imports {
			if target, ours := housePackage(importPath(spec)); ours && harness(target) {
				report.Addf(file, spec.Pos(), "%s is a test harness; only tests and harnesses may import it", target)
			}
		}
	}
}
