package fence

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/failover"
)

// problemsOf reads a list of devices, with a resolver that knows two names.
func problemsOf(t *testing.T, devices string) []string {
	t.Helper()
	o := defaults()
	o.Lookup = func(_ context.Context, host string) ([]string, error) {
		switch host {
		case "bmc-1.example.org", "ipmi-1.example.org":
			return []string{"2001:db8::1", "10.0.0.21"}, nil
		}
		return nil, errors.New("no such host")
	}
	_, problems := parse("f.yaml", []byte("devices:\n"+devices), o)
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.String())
	}
	return texts
}

const twoWorkers = "is the same machine as that of worker-1"

// Two kube nodes with one machine are found across devices, option names and ways to
// write an address: the one would count as off when the other is.
func TestOneMachineOfTwoKubeNodes(t *testing.T) {
	agent := func(name, text string) string {
		return "  - {name: " + name + ", type: agent, program: fence_ipmilan, " + text + "}\n"
	}
	redfish := func(name, nodes string) string {
		return "  - {name: " + name + ", type: redfish, username: u, password_file: /p, nodes: {" + nodes + "}}\n"
	}
	for name, c := range map[string]struct {
		text string
		same bool
	}{
		"aliases of the address": {
			agent("a", "nodes: {worker-1: {ip: 10.0.0.21}, worker-2: {ipaddr: 10.0.0.21, username: x}}"), true},
		// ip-addr is no alias
		"another alias": {
			agent("a", "nodes: {worker-1: {ip-addr: 10.0.0.20, ip: 10.0.0.21}, worker-2: {ipaddress: 10.0.0.21}}"), false},
		"ipaddress": {agent("a", "nodes: {worker-1: {ip: 10.0.0.21}, worker-2: {IPAddress: 10.0.0.21}}"),
			true},
		"across devices": {agent("a", "nodes: {worker-1: {ip: 10.0.0.21}}") +
			agent("b", "nodes: {worker-2: {ipaddr: 10.0.0.21}}"), true},
		"its own, twice": {agent("a", "nodes: {worker-1: {ip: 10.0.0.21}}") +
			agent("b", "nodes: {worker-1: {ip: 10.0.0.21}}"), false},
		"a name and an address": {agent("a", "nodes: {worker-1: {ip: BMC-1.example.org.}}") +
			agent("b", "nodes: {worker-2: {ip: 10.0.0.21}}"), true},
		"two names": {
			agent("a", "nodes: {worker-1: {ip: bmc-1.example.org}, worker-2: {ip: ipmi-1.example.org}}"), true},
		"two unknown names": {agent("a", "nodes: {worker-1: {ip: x.example.org}, worker-2: {ip: y.example.org}}"),
			false},
		"one unknown name": {agent("a", "nodes: {worker-1: {ip: x.example.org}, worker-2: {ip: X.example.org.}}"),
			true},
		"spellings of IPv6": {agent("a", `nodes: {worker-1: {ip: "2001:db8:0::7"}, worker-2: {ip: "2001:DB8::7"}}`),
			true},
		"an outlet of a strip": {
			agent("a", "options: {ip: 10.0.0.9}, nodes: {worker-1: {plug: 3}, worker-2: {port: 3}}"), true},
		"outlets of a strip": {
			agent("a", "options: {ip: 10.0.0.9}, nodes: {worker-1: {plug: 3}, worker-2: {plug: 4}}"), false},
		"one of two outlets": {
			agent("a", `options: {ip: 10.0.0.9}, nodes: {worker-1: {plug: "3,4"}, worker-2: {n: "4"}}`), true},
		"outlets of two strips": {agent("a", "options: {ip: 10.0.0.9}, nodes: {worker-1: {plug: 3}}") +
			agent("b", "options: {ip: 10.0.0.10}, nodes: {worker-2: {plug: 3}}"), false},
		"a plug that is the address": {agent("a", "options: {port_as_ip: 1}, nodes: {worker-1: {plug: 10.0.0.21}}") +
			agent("b", "nodes: {worker-2: {ip: 10.0.0.21}}"), true},
		"ports of virtual BMCs": {
			agent("a", "nodes: {worker-1: {ip: 10.0.0.9, ipport: 6230}, worker-2: {ip: 10.0.0.9, ipport: 6231}}"), false},
		"Redfish": {redfish("a", "worker-1: https://bmc-1.example.org/redfish/v1/Systems/1") +
			redfish("b", "worker-2: https://10.0.0.21:443/redfish/v1/systems/1/"), true},
		"Redfish and IPMI": {redfish("a", "worker-1: https://10.0.0.21/redfish/v1/Systems/1") +
			agent("b", "nodes: {worker-2: {ip: 10.0.0.21}}"), true},
		"a chassis and IPMI": {redfish("a",
			"worker-1: https://10.0.0.21/redfish/v1/Systems/1, worker-3: https://10.0.0.21/redfish/v1/Systems/3") +
			agent("b", "nodes: {worker-2: {ip: 10.0.0.21}}"), false},
		"Ironic": {
			"  - {name: a, type: ironic, nodes: {worker-1: AA-1}}\n  - {name: b, type: ironic, nodes: {worker-2: aa-1}}\n",
			true},
	} {
		t.Run(name, func(t *testing.T) {
			told := problemsOf(t, c.text)
			told = slices.DeleteFunc(told, func(p string) bool { return strings.Contains(p, "password_file") })
			found := slices.ContainsFunc(told, func(p string) bool { return strings.Contains(p, twoWorkers) })
			if found != c.same || !c.same && len(told) > 0 {
				t.Errorf("one-machine: told %q, want that it is the same machine: %v", told, c.same)
			}
		})
	}
}

// Options and programs that make an off without a machine that is off are refused.
func TestOptionsThatMakeUpAnOff(t *testing.T) {
	for _, option := range []string{"missing_as_off", "Missing-As-Off", "network-fencing", "record_only", "earlyexit",
		"warntimeout", "baremetalsolution"} {
		for _, text := range []string{
			"  - {name: a, type: agent, program: fence_virsh, options: {" + option + ": 1}, nodes: {worker-1: {plug: x}}}\n",
			"  - {name: a, type: agent, program: fence_virsh, nodes: {worker-1: {plug: x, " + option + ": 0}}}\n",
		} {
			if told := problemsOf(t, text); len(told) != 1 || !strings.Contains(told[0], "remove it: ") {
				t.Errorf("made-up-off: %s: %q", option, told)
			}
		}
	}
	for _, program := range []string{"fence_zvmip", "/usr/sbin/fence_vmware", "fence_crosslink", "fence_sbd"} {
		if _, what, _ := findProgram(program); !strings.Contains(what, "does not take the power away") &&
			!strings.Contains(what, "says off of a machine that it does not know") {
			t.Errorf("made-up-off: %s is taken: %q", program, what)
		}
	}
}

// fixed is a method with one answer.
type fixed struct {
	says failover.Power
	err  error
	offs *[]string
	name string
}

func (fixed) advice(address) string { return "ask somebody" }

func (f fixed) power(context.Context, failover.Machine, address) (failover.Power, error) {
	return f.says, f.err
}

func (f fixed) set(context.Context, failover.Machine, address, failover.Power) error {
	*f.offs = append(*f.offs, f.name)
	return f.err
}

// A machine with two supplies is off when both strips say so.
func TestGroupIsOffWhenAllAre(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		a, b fixed
		want failover.Power
		fail bool
	}{
		"both off":           {fixed{says: failover.PowerOff}, fixed{says: failover.PowerOff}, failover.PowerOff, false},
		"the first is on":    {fixed{says: failover.PowerOn}, fixed{says: failover.PowerOff}, failover.PowerOn, false},
		"the second is on":   {fixed{says: failover.PowerOff}, fixed{says: failover.PowerOn}, failover.PowerOn, false},
		"the second unknown": {fixed{says: failover.PowerOff}, fixed{}, failover.PowerUnknown, false},
		"the first fails":    {fixed{err: broken}, fixed{says: failover.PowerOff}, failover.PowerUnknown, true},
	} {
		var offs []string
		l := &List{}
		for i, f := range []fixed{c.a, c.b} {
			f.name, f.offs = []string{"strip-a", "strip-b"}[i], &offs
			l.devices = append(l.devices,
				&device{name: f.name, kind: "agent", group: "strips", nodes: map[string]address{"worker-1": {}}, method: f})
		}
		devices := l.For(worker())
		if len(devices) != 1 || devices[0].Name() != "strips" {
			t.Fatalf("group-all-off: %s: the devices are %v", name, devices)
		}
		power, err := devices[0].Power(t.Context(), worker())
		if power != c.want || (err != nil) != c.fail {
			t.Errorf("group-all-off: %s: %v, %v", name, power, err)
		}
		if err := devices[0].Off(t.Context(), worker()); (err != nil) != c.fail ||
			!slices.Equal(offs, []string{"strip-a", "strip-b"}) {
			t.Errorf("group-all-off: %s: told %v: %v", name, offs, err)
		}
	}
}

func TestProblemsOfGroups(t *testing.T) {
	strip := func(name, group, nodes string) string {
		return "  - {name: " + name + ", type: agent, program: fence_apc, group: " + group + ", options: {ip: " + name +
			"}, nodes: {" + nodes + "}}\n"
	}
	for text, want := range map[string]string{
		strip("a", "g", "worker-1: {plug: 1}") + strip("b", "g", "worker-1: {plug: 1}"): "",
		strip("a", "g",
			"worker-1: {plug: 1}"): "has one device only",
		strip("a", "g", "worker-1: {plug: 1}, worker-2: {plug: 2}") +
			strip("b", "g", "worker-1: {plug: 1}"): "devices[a].nodes.worker-2: is not among the nodes of b",
		strip("a", "b", "worker-1: {plug: 1}") +
			strip("b", "b", "worker-1: {plug: 1}"): "has the name of the device on line",
		"  - {name: a, type: ironic, group: g}\n" + strip("b", "g", "worker-1: {plug: 1}"): "is of a device without nodes",
	} {
		told := strings.Join(problemsOf(t, text), "\n")
		if want == "" && told != "" || !strings.Contains(told, want) {
			t.Errorf("%s: told %q, want %q", text, told, want)
		}
	}
}
