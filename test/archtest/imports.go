package archtest

import (
	"slices"
	"strings"
)

// checkImports compares every import of the module with the house.
func checkImports(tree *Tree, report *Report) {
	homeless := make(map[string]bool)
	for _, file := range tree.Files {
		importer := file.Package()
		if !hasPlace(importer) {
			if !homeless[importer] {
				report.Addf(file, file.Syntax.Package,
					"package %s has no place in the house; give it one in test/archtest/allowed_imports.go", importer)
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

// ban says which imports most of the tree must do without.
type ban struct {
	rule    string
	targets []string // beginnings of import paths
	tests   bool     // tests, too
	in      string   // the package, with those below it, that must do without; "": all
	free    []string // packages, with those below them, that may import it
	why     string
}

// bans keep what is heavy, or belongs to one room, out of the others.
func bans() []ban {
	const importer, reader = "cli/trivet-import", "cli/trivet-import/inspectordb"
	return []ban{
		{"raft", []string{"github.com/hashicorp/raft"}, true, "", []string{"raftstore", "test/simtest", "test/attacktest"},
			"only raftstore, test/simtest and test/attacktest may import it: what a test needs of Raft, they offer"},
		{"raft", []string{"github.com/hashicorp/raft"}, true, "raftstore/leader", nil,
			"it knows a leader by what raftstore tells it"},
		{"drivers", []string{"database/sql", "github.com/go-sql-driver/", "github.com/jackc/pgx/", "modernc.org/"}, false, "",
			[]string{reader, "test", "packaging"},
			"a peer has no database drivers, which are 8 MB; " + reader + " has them, for trivet-import alone"},
		{"drivers", []string{Module + "/" + reader}, false, "", []string{"cli/trivet-import/importer", "test", "packaging"},
			"a peer has no database drivers, which are 8 MB"},
		{"drivers", []string{Module + "/" + importer + "/"}, false, "", []string{importer, "test", "packaging"},
			"a peer has no database drivers, which are 8 MB"},
		// Templates look methods up by names from text, so that the linker has to keep every
		// exported method of every type that is converted to an interface, 6 MB.
		{"templates", []string{"text/template", "html/template"}, false, "", []string{"test", "packaging"},
			"it makes the linker keep every method: fill in the text with package strings, and escape with package html"},
		{"harness", []string{Module + "/test/", Module + "/packaging"}, false, "", []string{"test", "packaging"},
			"a test harness is for tests and harnesses"},
		// fsm computes the same on every peer: no I/O, lock or log. hash/maphash is seeded by process.
		{"pure", []string{"os", "io/ioutil", "syscall", "path/filepath", "net", "sync", "context", "runtime", "unsafe",
			"hash/maphash"}, false, "fsm", nil, "it is a pure package"},
		{"pure", []string{"math/rand", "crypto/rand", "log"}, false, "fsm", nil, "it is a pure package"},
		{"pure", []string{"math/rand", "crypto/rand", "log"}, false, "config", nil, "it is a pure package"},
		{"pure", []string{"math/rand", "crypto/rand", "log", "os"}, false, "cluster/pki", nil, "it is a pure package"},
	}
}

// checkBans returns the check of the bans of one rule.
func checkBans(rule string) func(*Tree, *Report) {
	return func(tree *Tree, report *Report) {
		for _, file := range tree.Files {
			for _, spec := range file.Syntax.Imports {
				target := importPath(spec)
				broken := slices.IndexFunc(bans(),
					func(b ban) bool { return b.rule == rule && b.covers(file) && startsWith(target, b.targets) })
				if broken >= 0 {
					report.Addf(file, spec.Pos(), "%s may not import %s: %s", file.Package(), target, bans()[broken].why)
				}
			}
		}
	}
}

func (b ban) covers(file *File) bool {
	pkg := file.Package()
	return (b.tests || !file.Test()) && (b.in == "" || within(pkg, b.in)) &&
		!slices.ContainsFunc(b.free, func(free string) bool { return within(pkg, free) })
}

// checkRaftguard keeps raftstore/raftguard, its tests included, free of everything but raft and
// the standard library, so that it can leave the repository.
func checkRaftguard(tree *Tree, report *Report) {
	for _, file := range tree.Files {
		if !within(file.Package(), "raftstore/raftguard") {
			continue
		}
		for _, spec := range file.Syntax.Imports {
			target := importPath(spec)
			first, _, _ := strings.Cut(target, "/")
			raft := strings.HasPrefix(target, "github.com/hashicorp/raft") || target == "github.com/hashicorp/go-hclog" ||
				strings.HasPrefix(target, "go.etcd.io/bbolt")
			if strings.Contains(first, ".") && !raft { // the standard library has no dot there
				report.Addf(file, spec.Pos(),
					"raftstore/raftguard may not import %s: only hashicorp/raft, go-hclog, bbolt and the standard library", target)
			}
		}
	}
}

// startsWith compares with paths, and with beginnings of paths that end in a slash or a
// module's name.
func startsWith(target string, beginnings []string) bool {
	return slices.ContainsFunc(beginnings, func(b string) bool {
		return within(target, b) || strings.ContainsAny(b, ".") && strings.HasPrefix(target, b)
	})
}
