package doctor

import (
	"fmt"
	"strings"
	"testing"
)

// inspected plants what a site's file says and what its Ironic has on each host.
type inspected struct {
	name       string
	interfaces []string
	mode       string
	driver     string // "" is auto
	version    string
	ironic     Inspect
	want       string // severity and the beginning of the text; "" finds nothing
	line       string // of the remedy
}

var (
	todays  = []string{"agent", "no-inspect", "redfish"}
	earlier = []string{"inspector", "no-inspect"}
	both    = []string{"agent", "inspector", "no-inspect"}
)

func inspectedSites() []inspected {
	agent, relay := []string{"agent"}, continueRelay
	return []inspected{
		// Of clients of ironic-inspector, by the file.
		{name: "as it was", mode: "off", version: "1.82",
			ironic: Inspect{Enabled: earlier, Nodes: map[string]int{"inspector": 3}}},
		{name: "no interface left", mode: "off", version: "1.104",
			ironic: Inspect{Enabled: todays, Nodes: map[string]int{"agent": 3}},
			want:   "warning Ironic has no inspect interface inspector any more (enabled: agent, no-inspect, redfish), and this file waits",
			line:   "firewall: {inspect_interfaces: [agent]}"},
		{name: "nodes still name it", mode: "off", version: "1.104",
			ironic: Inspect{Enabled: todays, Nodes: map[string]int{"inspector": 3}},
			want:   "warning Ironic has no inspect interface inspector any more",
			line:   "inspection: {continue_inspection: relay}"},
		{name: "an API that is pinned", mode: "off", version: "1.101", ironic: Inspect{Enabled: todays},
			want: "warning Ironic has no inspect interface inspector any more", line: "require_managed_boot = False"},
		{name: "a conductor of the earlier version", mode: "off", version: "1.104",
			ironic: Inspect{Enabled: both, Nodes: map[string]int{"inspector": 3}}},
		{name: "drivers are not told", mode: "off", version: "1.104",
			ironic: Inspect{Nodes: map[string]int{"agent": 3}, Error: "403"},
			want:   "warning Ironic has no inspect interface inspector any more (version 1.104 of its API)"},
		{name: "drivers are not told, before", mode: "off", version: "1.101",
			ironic: Inspect{Nodes: map[string]int{"inspector": 3}, Error: "403"}},
		{name: "neither conductors nor nodes", mode: "off", version: "1.104",
			want: "info Ironic has no inspect interface inspector any more"},
		{name: "neither, before", mode: "off", version: "1.101"},
		{name: "a first page of somebody else's", mode: "off", version: "",
			ironic: Inspect{Nodes: map[string]int{"no-inspect": 3}}},
		{name: "nothing boots a ramdisk", mode: "off", version: "1.104",
			ironic: Inspect{Enabled: []string{"no-inspect", "redfish"}},
			want:   "info Ironic has no inspect interface inspector any more (enabled: no-inspect, redfish)",
			line:   "inspection: {continue_inspection: native}"},
		{name: "no filter", mode: "off", driver: noop, version: "1.104", ironic: Inspect{Enabled: todays},
			want: "info Ironic has no inspect interface inspector any more"},
		{name: "both, and Ironic inspects", mode: "off", version: "1.95",
			ironic: Inspect{Enabled: both, Nodes: map[string]int{"agent": 2, "redfish": 1}},
			want:   "warning no node of Ironic has the inspect interface inspector (nodes by interface: agent: 2, redfish: 1)"},
		{name: "both in use", mode: "off", version: "1.95",
			ironic: Inspect{Enabled: both, Nodes: map[string]int{"agent": 2, "inspector": 1}}},
		{name: "Trivet inspects", mode: "native", version: "1.104",
			ironic: Inspect{Enabled: todays, Nodes: map[string]int{"agent": 3}}},
		{name: "nothing told", mode: "off", version: "1.104", ironic: Inspect{Error: "403"},
			want: "info not looked at: which inspect interfaces Ironic has: 403"},

		// Of an Ironic that inspects, by the file.
		{name: "as it is today", interfaces: agent, mode: relay, version: "1.104",
			ironic: Inspect{Enabled: todays, Nodes: map[string]int{"agent": 3}}},
		{name: "an interface of others", interfaces: []string{"acme-agent"}, mode: relay, version: "1.104",
			ironic: Inspect{Enabled: []string{"acme-agent"}, Nodes: map[string]int{"acme-agent": 3}}},
		{name: "the filter alone", interfaces: agent, mode: "off", version: "1.104", ironic: Inspect{Enabled: todays}},
		{name: "an Ironic of before", interfaces: agent, mode: relay, version: "1.82",
			ironic: Inspect{Enabled: earlier, Nodes: map[string]int{"inspector": 3}},
			want:   "warning by this file Ironic inspects by its interface agent, which no driver of it has enabled (enabled: inspector, no-inspect)",
			line:   "inspection: {continue_inspection: off}"},
		{name: "relay to an Ironic of before", mode: relay, version: "1.82", ironic: Inspect{Enabled: earlier},
			want: "warning by this file Ironic inspects by its interface agent, which no driver"},
		{name: "nodes of before", interfaces: agent, mode: relay, version: "1.95",
			ironic: Inspect{Enabled: both, Nodes: map[string]int{"inspector": 3}},
			want:   "warning by this file Ironic inspects by its interface agent, and no node has it (nodes by interface: inspector: 3)"},
		{name: "drivers are not told, nodes of before", interfaces: agent, mode: relay, version: "1.82",
			ironic: Inspect{Nodes: map[string]int{"inspector": 3}, Error: "403"},
			want:   "warning by this file Ironic inspects by its interface agent, and no node has it"},
		{name: "nodes that have to be changed yet", interfaces: agent, mode: relay, version: "1.104",
			ironic: Inspect{Enabled: todays, Nodes: map[string]int{"inspector": 3}}},
		{name: "no node yet", interfaces: agent, mode: relay, version: "1.104", ironic: Inspect{Enabled: todays}},
		{name: "relay behind a filter that denies", mode: relay, version: "1.104", ironic: Inspect{Enabled: todays},
			want: "warning inspection.continue_inspection is relay and firewall.inspect_interfaces is empty",
			line: "firewall: {inspect_interfaces: [agent]}"},
		{name: "relay without a filter", mode: relay, driver: noop, version: "1.104", ironic: Inspect{Enabled: todays}},
		{name: "a peer of v0.2.0", mode: "", version: "1.104", ironic: Inspect{Enabled: todays}},
	}
}

// A site whose file waits for clients of ironic-inspector where Ironic inspects is found, and
// the reverse, by what Ironic has; what fits is not.
func TestWhoInspects(t *testing.T) {
	for _, c := range inspectedSites() {
		hosts := healthy()
		for i := range hosts {
			p := &hosts[i].Plan
			p.InspectInterfaces, p.ContinueInspection, hosts[i].Boot.Callback = c.interfaces, c.mode, ""
			if c.driver != "" {
				p.Driver = c.driver
			}
			told := c.ironic
			hosts[i].Services[0].Version, hosts[i].Services[0].Inspect = c.version, &told
		}
		found := judge(t, hosts, "inspection")
		if len(found) != min(len(c.want), 1) {
			t.Errorf("%s: found %+v, want %q", c.name, found, c.want)
			continue
		}
		for _, f := range found {
			if got := fmt.Sprintf("%s %s", f.Severity, f.Text); !strings.HasPrefix(got, c.want) || len(f.Hosts()) != 3 {
				t.Errorf("%s: on %v\n%s\nwant\n%s…", c.name, f.Hosts(), got, c.want)
			}
			if !strings.Contains(strings.Join(f.Remedy, "\n"), c.line) {
				t.Errorf("%s: the remedy lacks %q: %q", c.name, c.line, f.Remedy)
			}
		}
	}
}

// An Ironic that does not answer is the check of services' to tell.
func TestWhoInspectsWhileIronicIsAway(t *testing.T) {
	hosts := healthy()
	for i := range hosts {
		hosts[i].Plan.ContinueInspection = "off"
		hosts[i].Services[0] = Service{What: "Ironic", Section: "ironic", Error: "connection refused"}
	}
	if found := judge(t, hosts, "inspection"); len(found) > 0 {
		t.Errorf("ironic-away: found %+v", found)
	}
}

// A ramdisk reports where the site's kind of inspection takes it.
func TestCallbackPath(t *testing.T) {
	for _, c := range []struct{ name, mode, callback, want string }{
		{"Trivet's", "off", "http://192.0.2.200:5050/v1/continue", ""},
		{"Ironic's, relayed", "relay", "http://192.0.2.200:5050/v1/continue_inspection", ""},
		{"Ironic's, native", "native", "http://192.0.2.200:5050/v1/continue_inspection", ""},
		{"Trivet's, native", "native", "http://192.0.2.200:5050/v1/continue", ""},
		{"Trivet's, and relay", "relay", "http://192.0.2.200:5050/v1/continue",
			"warning the ramdisk reports to http://192.0.2.200:5050/v1/continue, where Trivet inspects"},
		{"with a slash", "relay", "http://192.0.2.200:5050/v1/continue/", "warning the ramdisk reports to"},
		{"the second of a list", "relay", "http://192.0.2.200:5050/v1/continue_inspection,http://192.0.2.1:5050/v1/continue",
			"warning the ramdisk reports to http://192.0.2.1:5050/v1/continue,"},
		{"Ironic's, and off", "off", "http://192.0.2.200:5050/v1/continue_inspection",
			"error the ramdisk reports to http://192.0.2.200:5050/v1/continue_inspection, and inspection.continue_inspection is off"},
		{"at a host", "off", "http://192.0.2.2:5050/v1/continue_inspection", "error the ramdisk reports to"},
		{"at Ironic itself", "off", "http://192.0.2.77:6385/v1/continue_inspection", ""},
	} {
		hosts := healthy()
		for i := range hosts {
			hosts[i].Plan.ContinueInspection, hosts[i].Boot.Callback = c.mode, c.callback
		}
		found := judge(t, hosts, "inspection")
		if len(found) != min(len(c.want), 1) {
			t.Errorf("%s: found %+v, want %q", c.name, found, c.want)
			continue
		}
		for _, f := range found {
			if got := fmt.Sprintf("%s %s", f.Severity, f.Text); !strings.HasPrefix(got, c.want) {
				t.Errorf("%s: %s, want %s…", c.name, got, c.want)
			}
		}
	}
}
