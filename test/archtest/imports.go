package archtest

import (
	"regexp"
	"slices"
	"strings"
)

// housePackage turns an import path into the name the house uses.
func housePackage(importPath string) (pkg string, ours bool) {
	if importPath == Module {
		return ".", true
	}
	return strings.CutPrefix(importPath, Module+"/")
}

// ban says which imports a part of the tree must do without.
type ban struct {
	in      []string       // packages, with those below them, that must do without; nil: all
	tests   bool           // their tests, too
	targets *regexp.Regexp // of import paths
	but     *regexp.Regexp // of these, which they may import; nil: none
	free    []string       // packages, with those below them, that may import it
	why     string
}

func paths(expr string) *regexp.Regexp { return regexp.MustCompile(`^(?:` + expr + `)`) }

const (
	reader  = "cli/trivet-import/inspectordb" // reads the databases of other programs
	isPure  = "it is a pure package"
	drivers = "a peer has no database drivers, which are 8 MB; " + reader + " has them, for trivet-import alone"
)

// bans keep what is heavy, or belongs to one room, out of the others (docs/design.md#kept),
// and narrow the house, although what they name stands lower.
var bans = []ban{
	{in: []string{"cli", "firewall", "inspector/ironic", "failover/kube", "failover/fence", "haconfig"}, tests: true,
		targets: paths(Module + `/raftstore\b`), but: paths(Module + `/raftstore/leader\b`),
		why: "effects, admission and the command line know nothing of Raft; declare the interface you need"},
	{in: []string{"inspector"}, targets: paths(Module + `/cluster\b`), tests: true,
		why: "declare the interface you need; raftstore/logerr has the errors of the log"},
	{targets: paths(`github\.com/hashicorp/raft`), tests: true,
		free: []string{"raftstore", "test/simtest", "test/attacktest"},
		why:  "only raftstore, test/simtest and test/attacktest may import it: what a test needs of Raft, they offer"},
	{in: []string{"raftstore/leader"}, targets: paths(`github\.com/hashicorp/raft`), tests: true,
		why: "it knows a leader by what raftstore tells it"},
	// What corrects raft could leave the repository. The standard library has no dot in a first element.
	{in: []string{"raftstore/raftguard"}, tests: true, targets: paths(`[^/]*\.`),
		but: paths(`github\.com/hashicorp/(?:raft|go-hclog$)|go\.etcd\.io/bbolt`),
		why: "only hashicorp/raft, go-hclog, bbolt and the standard library"},
	{targets: paths(`database/sql|github\.com/go-sql-driver/|github\.com/jackc/pgx/|modernc\.org/`),
		free: []string{reader, "test", "packaging"}, why: drivers},
	{targets: paths(Module + "/" + reader), free: []string{"cli/trivet-import/importer", "test", "packaging"},
		why: drivers},
	{targets: paths(Module + "/cli/trivet-import/"), free: []string{"cli/trivet-import", "test", "packaging"},
		why: drivers},
	// Templates look methods up by names from text, so that the linker has to keep every
	// exported method of every type that is converted to an interface, 6 MB.
	{targets: paths(`(?:text|html)/template$`), free: []string{"test", "packaging"},
		why: "it makes the linker keep every method: fill in the text with package strings, and escape with package html"},
	{targets: paths(Module + `/(?:test/|packaging\b)`), free: []string{"test", "packaging"},
		why: "a test harness is for tests and harnesses"},
	// fsm computes the same on every peer: no I/O, lock or log. hash/maphash is seeded by process.
	{in: []string{"fsm"}, why: isPure,
		targets: paths(`(?:os|io/ioutil|syscall|path/filepath|net|sync|context|runtime|unsafe|hash/maphash)\b`)},
	{in: []string{"fsm", "config", "cluster/pki"}, targets: paths(`(?:math/rand|crypto/rand|log)\b`), why: isPure},
	{in: []string{"cluster/pki"}, targets: paths(`os\b`), why: isPure},
}

// checkImports compares every import of the module with the house, and every import with
// the bans.
func checkImports(file *File, report report) {
	importer := file.Package()
	if !hasPlace(importer) {
		report(file.line(file.Syntax.Package),
			"package %s has no place in the house; give it one in test/archtest/allowed_imports.go", importer)
	}
	below := func(parent string) bool { return within(importer, parent) }
	for _, spec := range file.Syntax.Imports {
		target := importPath(spec)
		refuse := func(reason string) {
			report(file.line(spec.Pos()), "%s may not import %s: %s", importer, target, reason)
		}
		if pkg, ours := housePackage(target); ours && refusal(importer, pkg) != "" {
			refuse(refusal(importer, pkg))
		}
		for _, b := range bans {
			if (b.tests || !file.test()) && (b.in == nil || slices.ContainsFunc(b.in, below)) &&
				!slices.ContainsFunc(b.free, below) && b.targets.MatchString(target) &&
				(b.but == nil || !b.but.MatchString(target)) {
				refuse(b.why)
			}
		}
	}
}
