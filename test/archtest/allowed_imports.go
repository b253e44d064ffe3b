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
	line, _ := place(pkg)
	return harness(pkg) || line >= 0
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
	case harness(importer), harness(target), fromLine < 0, toLine < 0:
		return ""
	case limited && !slices.Contains(only, target):
		return "it may import only " + strings.Join(only, ", ")
	case importer == target: // an external test imports the package it tests
		return ""
	case slices.Contains(parts, importer) && !limited:
		return "a part of its parent imports nothing of the house"
	case kin && !within(importer, target):
		return "a child is not for its parent or siblings: meet in the parent, app wires them"
	case toLine < fromLine, toLine == fromLine && toColumn < fromColumn:
		return "imports point downward, and on a line to the right"
	}
	return ""
}
