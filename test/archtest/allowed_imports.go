package archtest

import (
	"regexp"
	"slices"
	"strings"
)

// house is the picture of docs/design.md#packages. A package may import whatever stands on a
// lower line, and on its own line whatever stands to its right. Packages that
// do not exist yet have their place already; a new package gets one here
// first, in the change that brings it.
//
// A child (firewall/nftables) stands where its folder stands and may import it;
// the parent never imports the child, and siblings ignore each other. A folder
// below another that has a place of its own here (api/events) is no child.
var house = [][]string{
	{"."},
	{"cli", "cli/trivet-import", "cli/trivet-import/importer", "cli/trivet-import/inspectorconf",
		"cli/trivet-import/inspectordb", "cli/daemon", "cli/data", "cli/cluster", "cli/debug", "cli/node", "cli/pxe",
		"cli/kube", "cli/lease", "cli/local", "cli/servers", "cli/options", "cli/term", "app"},
	{"app/admin", "app/health", "app/waits"},
	{"api", "haconfig", "app/datadir"},
	{"lease", "failover", "inspector/judge", "inspector/accept", "inspector/work", "inspector/periodic", "inspector/relay",
		"inspector", "inspector/identify", "inspector/ironic", "inspector/document", "inspector/hardware", "inspector/lldp",
		"api/receivers", "api/events", "firewall/host"},
	{"raftstore/leader", "doctor", "firewall", "cluster"},
	{"raftstore"},
	{"fsm"},
	{"fsm/membership", "fsm/introspection", "fsm/leases", "fsm/kubestate", "fsm/zones", "fsm/relays", "fsm/ruleset",
		"fsm/nodesync", "fsm/expectations", "fsm/boots", "fsm/doors", "fsm/ironicports", "fsm/settings", "fsm/operators",
		"fsm/deliveries", "fsm/blobs"},
	{"fsm/entry"},
	{"fsm/eventring", "fsm/macset"},
	{"fsm/table", "fsm/codec", "fsm/valid", "fsm/fencing", "config", "client", "internal"},
}

// children are the adapters and parts that live under the package whose
// interface they implement, or whose subject they share.
var children = []string{
	"api/web", "haconfig/kube", "client/lease",
	"lease/elector", "lease/elector/sidecar", "lease/elector/kube", "lease/runner", "lease/leaderrpc", "lease/kubepolicy",
	"failover/kube", "failover/fence",
	"inspector/hooks", "inspector/rules", "inspector/blackbox", "inspector/ramdisklogs",
	"firewall/nftables", "firewall/iptables", "firewall/dnsmasq", "firewall/netif", "firewall/probe", "firewall/recorder",
	"firewall/floatingip", "firewall/pxe/install",
	"raftstore/host", "raftstore/ballast", "doctor/host", "internal/httpserver", "internal/keystone",
	"internal/serviceuser", "internal/supportbundle",
}

// parts are children that import nothing of the house themselves, but for what onlyImport says; their parent and
// siblings may import them, and so may whoever may import the parent.
var parts = []string{
	"doctor/dnsmasq", "firewall/rawsocket", "firewall/pxe", "cluster/pki",
	"raftstore/batcher", "raftstore/logerr", "raftstore/raftguard", "raftstore/raftguard/wal",
	"internal/httpserver/admission", "internal/bounds", "internal/hostaddr", "internal/kubeclient", "internal/logs",
	"internal/pace", "internal/portholder", "internal/program", "internal/redact", "internal/servicecreds",
}

// onlyImport lists packages that may import nothing of the house but this.
var onlyImport = map[string][]string{
	".": {"cli"},
	// What others' programs import: the API's client, and what holds a lease by it.
	"client":       {"internal/pace", "internal/bounds"},
	"client/lease": {"client", "internal/pace"},
	// A part whose files may lie on a share, and one that others may stand in front of.
	"internal/servicecreds": {"internal/bounds"},
	"internal/kubeclient":   {"internal/bounds"},
}

// harness reports whether pkg is a harness: part of no binary, free to import
// anything. Everything below test is one; so is what builds the packages.
func harness(pkg string) bool {
	return within(pkg, "test") || within(pkg, "packaging")
}

// place finds where a package stands, line -1 when nowhere. A child or part stands where
// its parent does.
func place(pkg string) (line, column int) {
	if slices.Contains(children, pkg) || slices.Contains(parts, pkg) {
		pkg = top(pkg)
	}
	for line, packages := range house {
		if column := slices.Index(packages, pkg); column >= 0 {
			return line, column
		}
	}
	return -1, -1
}

// refusal tells why importer may not import target, both packages of the house, "" if it
// may. What harnesses import is for the bans, and a target without a place is reported
// where it lives.
func refusal(importer, target string) string {
	only, limited := onlyImport[importer]
	fromLine, fromColumn := place(importer)
	toLine, toColumn := place(target)
	kin := fromLine == toLine && fromColumn == toColumn && !slices.Contains(parts, target)
	switch {
	case importer == target, harness(importer), harness(target), fromLine < 0, toLine < 0:
		return "" // an external test imports the package that it tests
	case limited && !slices.Contains(only, target):
		return "it may import only " + strings.Join(only, ", ")
	case slices.Contains(parts, importer) && !limited:
		return "a part of its parent imports nothing of the house"
	case kin && !within(importer, target):
		return "a child is not for its parent or siblings: meet in the parent, app wires them"
	case toLine < fromLine, toLine == fromLine && toColumn < fromColumn:
		return "imports point downward, and on a line to the right"
	}
	return ""
}

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
	if line, _ := place(importer); line < 0 && !harness(importer) {
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
