package doctor

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Inspect is by what Ironic inspects its nodes, as it told a peer.
type Inspect struct {
	// Enabled are the inspect interfaces of all its drivers, sorted; none: not known.
	Enabled []string       `json:"enabled,omitempty"`
	Nodes   map[string]int `json:"nodes,omitempty"` // nodes by interface, of the first page
	Error   string         `json:"error,omitempty"` // of what could not be found out
}

// The inspect interfaces of Ironic that boot a ramdisk: the client of ironic-inspector,
// and the one that took its place.
const (
	clientInterface = "inspector"
	agentInterface  = "agent"
)

// lastWithClient is the newest minor version of its API that an Ironic offers which may
// have the interface inspector: that of 32.0.
const lastWithClient = 101

// Values of inspection.continue_inspection.
const (
	continueOff   = "off"
	continueRelay = "relay"
)

// The paths at which a ramdisk reports: to Trivet, and to Ironic.
const (
	pathContinue = "/v1/continue"
	pathInband   = "/v1/continue_inspection"
)

func judgeInspection(hosts []Facts) []Finding {
	var out []Finding
	for _, f := range hosts {
		if f.Plan.ContinueInspection == "" {
			continue // a peer of an earlier version, which does not say
		}
		out = append(out, judgeCallbackPath(f, hosts)...)
		for _, s := range f.Services {
			if s.Inspect != nil && s.Error == "" {
				out = append(out, JudgeInspect(f, s)...)
			}
		}
	}
	return out
}

// JudgeInspect compares who inspects by the configuration of a host with what Ironic has.
func JudgeInspect(f Facts, ironic Service) []Finding {
	s := inspectedBy{f, *ironic.Inspect, ironic.Version}
	if len(s.has.Enabled) == 0 && len(s.has.Nodes) == 0 && s.has.Error != "" {
		return []Finding{newFinding(Info, f, nil, "not looked at: which inspect interfaces Ironic has: %s", s.has.Error)}
	}
	p := f.Plan
	switch {
	case len(p.InspectInterfaces) > 0 || p.ContinueInspection == continueRelay:
		return s.ironicInspects()
	case p.ContinueInspection != continueOff: // native: Trivet inspects, by any interface of Ironic's
		return nil
	case s.noClient():
		return []Finding{s.noClientLeft("Ironic has no inspect interface inspector any more (" + s.enabled() + ")")}
	case s.has.Nodes[agentInterface] > 0 && s.has.Nodes[clientInterface] == 0:
		return []Finding{s.noClientLeft("no node of Ironic has the inspect interface inspector (" + s.used() + ")")}
	}
	return nil
}

// inspectedBy is a host's configuration next to what Ironic has.
type inspectedBy struct {
	host    Facts
	has     Inspect
	version string // newest of Ironic's API
}

// ironicInspects judges a configuration by which Ironic inspects.
func (s inspectedBy) ironicInspects() []Finding {
	lets := s.host.Plan.InspectInterfaces
	if len(lets) == 0 { // relay alone
		lets = []string{agentInterface}
		if s.host.Plan.Driver != noop && s.offers(agentInterface) {
			return []Finding{newFinding(Warning, s.host, writeLines("firewall: {inspect_interfaces: [agent]}"),
				"inspection.continue_inspection is relay and firewall.inspect_interfaces is empty: the PXE filter lets none of the machines boot that Ironic inspects")}
		}
	}
	back := []string{
		"# let Ironic inspect: enable it in its configuration, [DEFAULT] enabled_inspect_interfaces, and give it to the nodes;",
		"# or, if clients of ironic-inspector start inspections, remove firewall.inspect_interfaces from the file of every host, and write:",
		"inspection: {continue_inspection: off}", "systemctl restart trivet"}
	var out []Finding
	for _, name := range lets {
		if len(s.has.Enabled) > 0 && !slices.Contains(s.has.Enabled, name) {
			out = append(out, newFinding(Warning, s.host, back,
				"by this file Ironic inspects by its interface %s, which no driver of it has enabled (%s)", name, s.enabled()))
		}
	}
	used := slices.ContainsFunc(lets, func(name string) bool { return s.has.Nodes[name] > 0 })
	if len(out) == 0 && !used && s.has.Nodes[clientInterface] > 0 && !s.noClient() {
		out = append(out, newFinding(Warning, s.host, back,
			"by this file Ironic inspects by its interface %s, and no node has it (%s)", strings.Join(lets, " or "), s.used()))
	}
	return out
}

// noClientLeft is a configuration that waits for clients of ironic-inspector where Ironic
// inspects. Without a filter it keeps no machine from booting.
func (s inspectedBy) noClientLeft(why string) Finding {
	severity, then := Warning, "the PXE filter lets none of the machines boot that its interface agent inspects"
	switch {
	case !s.offers(agentInterface):
		severity, then = Info, "nothing in Ironic starts an inspection that boots a ramdisk"
	case s.host.Plan.Driver == noop:
		severity, then = Info, "what ramdisks of its interface agent report is not kept while Ironic is away"
	}
	return newFinding(severity, s.host, append(
		[]string{
			"# if Ironic inspects, with [inspector] require_managed_boot = False in its configuration, in the file of every host:",
			"firewall: {inspect_interfaces: [agent]}", "inspection: {continue_inspection: relay}",
			"# if 'trivet introspection start' does, with any interface of Ironic's, instead of both:"},
		writeLines("inspection: {continue_inspection: native}")[1:]...),
		"%s, and this file waits for clients of ironic-inspector: %s", why, then)
}

// writeLines are a remedy: a line of the file, and what puts it in force.
func writeLines(line string) []string {
	return []string{"# in the file of every host:", line, "systemctl restart trivet"}
}

// judgeCallbackPath finds a boot script whose ramdisk reports at a path that leads nowhere.
func judgeCallbackPath(f Facts, hosts []Facts) []Finding {
	rewrite := rewriteCallback(f.root())
	for _, text := range strings.Split(f.Boot.Callback, ",") {
		u, err := url.Parse(text)
		if err != nil {
			continue // the check of boot files says so
		}
		mode := f.Plan.ContinueInspection
		switch path := strings.TrimSuffix(u.Path, "/"); {
		case path == pathContinue && mode == continueRelay:
			return []Finding{newFinding(Warning, f, []string{rewrite},
				"the ramdisk reports to %s, where Trivet inspects, and inspection.continue_inspection is relay: an inspection that Ironic started does not get its document; it is %s",
				text, pathInband)}
		case path == pathInband && mode == continueOff && isOfPeers(u.Hostname(), f, hosts):
			return []Finding{newFinding(Error, f, []string{rewrite,
				"# or, if Ironic inspects, in the file of every host: inspection: {continue_inspection: relay}"},
				"the ramdisk reports to %s, and inspection.continue_inspection is off: it is answered 404", text)}
		}
	}
	return nil
}

// isOfPeers reports whether an address is the floating IP or one of a peer's host.
func isOfPeers(address string, f Facts, hosts []Facts) bool {
	return slices.ContainsFunc(append([]string{address}, f.Boot.Hosts...), func(a string) bool {
		return same(a, f.Plan.FloatingIP) || slices.ContainsFunc(hosts, func(h Facts) bool { return h.hasAddress(a) })
	})
}

// offers reports whether nodes may have an interface, as far as Ironic told.
func (s inspectedBy) offers(name string) bool {
	return slices.Contains(s.has.Enabled, name) || len(s.has.Enabled) == 0 && s.has.Nodes[name] > 0
}

// noClient reports whether Ironic surely has no client of ironic-inspector. What its drivers
// have counts; where it does not tell, the newest version of its API.
func (s inspectedBy) noClient() bool {
	if len(s.has.Enabled) > 0 {
		return !slices.Contains(s.has.Enabled, clientInterface)
	}
	minor, err := strconv.Atoi(strings.TrimPrefix(s.version, "1."))
	return err == nil && minor > lastWithClient
}

// enabled says what Ironic has, for a message.
func (s inspectedBy) enabled() string {
	if len(s.has.Enabled) > 0 {
		return "enabled: " + strings.Join(s.has.Enabled, ", ")
	}
	return "version " + s.version + " of its API"
}

// used says which interfaces nodes have, for a message.
func (s inspectedBy) used() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(s.has.Nodes)) {
		parts = append(parts, fmt.Sprintf("%s: %d", name, s.has.Nodes[name]))
	}
	return "nodes by interface: " + strings.Join(parts, ", ")
}
