package archtest

import (
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
	{"lease", "failover", "inspector/judge", "inspector/accept", "inspector/work", "inspector/periodic",
		"inspector/relay", "inspector",
		"inspector/identify", "inspector/ironic", "inspector/document", "inspector/hardware", "inspector/lldp",
		"api/receivers", "api/events",
		"firewall/host"},
	{"raftstore/leader", "doctor", "firewall", "cluster"},
	{"raftstore"},
	{"fsm"},
	{
		"fsm/membership", "fsm/introspection", "fsm/leases", "fsm/kubestate", "fsm/zones", "fsm/relays", "fsm/ruleset",
		"fsm/nodesync", "fsm/expectations",
		"fsm/boots", "fsm/doors", "fsm/ironicports", "fsm/settings", "fsm/operators", "fsm/deliveries", "fsm/blobs",
	},
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

// exception narrows the picture: importer, or anything below it, may not
// import target, or its children, although it stands lower.
type exception struct{ importer, target, why string }

var exceptions = []exception{
	{"cli", "raftstore", "the command line reaches the log through app"},
	{"firewall", "raftstore", "effects know nothing of Raft; declare the interface you need"},
	{"inspector/ironic", "raftstore", "effects know nothing of Raft; declare the interface you need"},
	{"failover/kube", "raftstore", "effects know nothing of Raft; declare the interface you need"},
	{"failover/fence", "raftstore", "effects know nothing of Raft; declare the interface you need"},
	{"inspector", "cluster", "declare the interface you need; raftstore/logerr has the errors of the log"},
	{"haconfig", "raftstore", "admission needs no log; declare the interface you need"},
}

// onlyImport lists packages that may import nothing of the house but this.
var onlyImport = map[string][]string{
	".": {"cli"},
	// What others' programs import: the API's client, and what holds a lease by it.
	"client":       {"client", "internal/pace", "internal/bounds"},
	"client/lease": {"client/lease", "client", "internal/pace"},
	// A part whose files may lie on a share, and one that others may stand in front of.
	"internal/servicecreds": {"internal/servicecreds", "internal/bounds"},
	"internal/kubeclient":   {"internal/kubeclient", "internal/bounds"},
}

// harness reports whether pkg is a harness: part of no binary, free to import
// anything. Everything below test is one; so is what builds the packages.
func harness(pkg string) bool {
	return within(pkg, "test") || within(pkg, "packaging")
}

// hasPlace reports whether the house knows the package.
func hasPlace(pkg string) bool {
	if harness(pkg) || slices.Contains(children, pkg) || slices.Contains(parts, pkg) {
		return true
	}
	line, _ := place(pkg)
	return line >= 0
}

// room returns the entry of the house that a child or part belongs to; every
// other package is its own.
func room(pkg string) string {
	if slices.Contains(children, pkg) || slices.Contains(parts, pkg) {
		pkg, _, _ = strings.Cut(pkg, "/")
	}
	return pkg
}

// place finds where a package stands, line -1 when nowhere. A child or part
// stands where its parent does.
func place(pkg string) (line, column int) {
	for line, packages := range house {
		if column := slices.Index(packages, room(pkg)); column >= 0 {
			return line, column
		}
	}
	return -1, -1
}

// mayImport decides whether importer may import target, both packages that
// have a place and neither a harness. The reason says why not.
func mayImport(importer, target string) (ok bool, reason string) {
	for _, e := range exceptions {
		if within(importer, e.importer) && room(target) == e.target {
			return false, e.why
		}
	}
	only, limited := onlyImport[importer]
	if limited && !slices.Contains(only, target) {
		return false, "it may import only " + strings.Join(only, ", ")
	}
	if slices.Contains(parts, importer) && !limited && importer != target { // an external test imports what it tests
		return false, "a part of its parent imports nothing of the house"
	}
	fromLine, fromColumn := place(importer)
	toLine, toColumn := place(target)
	switch {
	case importer == target:
		return true, "" // an external test imports the package it tests
	case fromLine == toLine && fromColumn == toColumn:
		return family(importer, target)
	case toLine > fromLine, toLine == fromLine && toColumn > fromColumn:
		return true, ""
	}
	return false, "imports point downward, and on a line to the right"
}

// family decides imports between packages of one parent.
func family(importer, target string) (ok bool, reason string) {
	switch {
	case within(importer, target), slices.Contains(parts, target):
		return true, ""
	case within(target, importer):
		return false, "a parent never imports its child; app wires them"
	}
	return false, "siblings ignore each other; meet in the parent"
}
