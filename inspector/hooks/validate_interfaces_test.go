package hooks

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/identify"
)

// sample is a machine that booted from eth1; eth2 has no address.
const sample = `{"inventory": {"interfaces": [
	{"name": "eth0", "mac_address": "52:54:00:1B:00:01", "ipv4_address": "172.24.42.100", "ipv6_address": "fe80::1%eth0", "client_id": null},
	{"name": "eth1", "mac_address": "52:54:00:1b:00:02", "ipv4_address": null, "ipv6_address": "fd00::2%eth1", "client_id": "ff:00:01"},
	{"name": "eth2", "mac_address": "52:54:00:1b:00:03"},
	{"name": "lo", "mac_address": "00:00:00:00:00:00", "ipv4_address": "127.0.0.1"},
	{"name": "local", "mac_address": "52:54:00:1b:00:05", "ipv6_address": "::1"},
	{"name": "unplugged"}, {"mac_address": "52:54:00:1b:00:06"}, {"name": "ib0", "mac_address": "80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:1f:a1:31"}],
	"bmc_address": "198.18.27.1", "bmc_v6address": "::/0"}, "boot_interface": "01-52-54-00-1B-00-02", "ipmi_address": "192.0.2.1"}`

// What sample's interfaces look like in the document.
const (
	eth0  = `"eth0":{"ip":"172.24.42.100","mac":"52:54:00:1b:00:01","client_id":null,"pxe":false}`
	eth1  = `"eth1":{"ip":"fd00::2","mac":"52:54:00:1b:00:02","client_id":"ff:00:01","pxe":true}`
	eth2  = `"eth2":{"ip":null,"mac":"52:54:00:1b:00:03","client_id":null,"pxe":false}`
	lo    = `"lo":{"ip":"127.0.0.1","mac":"00:00:00:00:00:00","client_id":null,"pxe":false}`
	local = `"local":{"ip":"::1","mac":"52:54:00:1b:00:05","client_id":null,"pxe":false}`
)

func TestChosenInterfaces(t *testing.T) {
	unbooted := strings.Replace(sample, `"01-52-54-00-1B-00-02"`, `null`, 1)
	colons := strings.Replace(sample, `"01-52-54-00-1B-00-02"`, `"52:54:00:1B:00:02"`, 1)
	dashes := strings.Replace(sample, `"01-52-54-00-1B-00-02"`, `"52-54-00-1b-00-02"`, 1)
	notBooted := strings.Replace(eth1, "true", "false", 1)
	tests := []struct{ name, add, text, interfaces, macs string }{
		{"the one that booted", "pxe", sample, eth1, `"52:54:00:1b:00:02"`},
		{"written with colons", "pxe", colons, eth1, `"52:54:00:1b:00:02"`},
		{"written with dashes", "pxe", dashes, eth1, `"52:54:00:1b:00:02"`},
		{"with an address, as none is known to have booted", "pxe", unbooted, eth0 + "," + notBooted,
			`"52:54:00:1b:00:01","52:54:00:1b:00:02"`},
		{"with an address", "active", sample, eth0 + "," + eth1, `"52:54:00:1b:00:01","52:54:00:1b:00:02"`},
		{"all", "all", sample, eth0 + "," + eth1 + "," + eth2, `"52:54:00:1b:00:01","52:54:00:1b:00:02","52:54:00:1b:00:03"`},
		{"for nothing", "disabled", sample, eth0 + "," + eth1, `"52:54:00:1b:00:01","52:54:00:1b:00:02"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := parsed(t, tt.text)
			if got := `"` + strings.Join((validateInterfaces{add: tt.add}).Choose(d), `","`) + `"`; got != tt.macs {
				t.Errorf("chosen are %s, want %s", got, tt.macs)
			}
			wantProblem(t, validateInterfaces{add: tt.add}.Before(t.Context(), d), "")
			want := map[string]string{"ipmi_address": `"198.18.27.1"`, "ipmi_v6address": "null",
				"interfaces": "{" + tt.interfaces + "}", "macs": "[" + tt.macs + "]"}
			if tt.text == sample {
				want["all_interfaces"] = "{" + strings.Join([]string{eth0, eth1, eth2, lo, local}, ",") + "}"
			}
			for key, want := range want {
				if got := member(t, d, key); got != want {
					t.Errorf("%s is\n%s\nwant\n%s", key, got, want)
				}
			}
		})
	}
}

func TestRefusedInterfaces(t *testing.T) {
	nic := func(fields string) string { return `{"inventory": {"interfaces": [` + fields + `]}}` }
	many := strings.Repeat(`{"name": "a"},`, identify.MaxInterfaces) + `{"name": "b"}`
	tests := []struct{ name, text, want string }{
		{"no inventory", `{}`, "Hardware inventory is empty or missing"},
		{"empty inventory", `{"inventory": { }}`, "Hardware inventory is empty or missing"},
		{"inventory of null", `{"inventory": null}`, "Hardware inventory is empty or missing"},
		{"inventory of another shape", `{"inventory": [1]}`, "inventory: expected an object, got a list"},
		{"no interfaces", `{"inventory": {"cpu": 1}}`, "No network interfaces provided in the inventory"},
		{"empty interfaces", nic(``), "No network interfaces provided in the inventory"},
		{"interfaces of another shape", `{"inventory": {"interfaces": {"eth0": 1}}}`,
			"inventory.interfaces: expected a list, got an object"},
		{"null for an interface", nic(`{"name": "a"}, null`), "inventory.interfaces[1]: expected an object, got nothing"},
		{"number for a name", nic(`{"name": 5}`), "inventory.interfaces[0].name: expected text, got a number"},
		{"list for a MAC", nic(`{"name": "a", "mac_address": []}`),
			"inventory.interfaces[0].mac_address: expected text, got a list"},
		{"truth for an address", nic(`{"name": "a", "ipv4_address": true}`),
			"inventory.interfaces[0].ipv4_address: expected text, got true or false"},
		{"word for an address", nic(`{"name": "a", "mac_address": "52:54:00:99:99:99", "ipv4_address": "n/a"}`),
			"inventory.interfaces[0]: 'n/a' is not an IP address"},
		{"object for a client", nic(`{"name": "a", "client_id": {}}`),
			"inventory.interfaces[0].client_id: expected text, got an object"},
		{"number for the BMC", `{"inventory": {"interfaces": [1], "bmc_address": 1}}`,
			"inventory.bmc_address: expected text, got a number"},
		{"number for what booted", `{"inventory": {"interfaces": [1]}, "boot_interface": 1}`,
			"boot_interface: expected text, got a number"},
		{"no MAC", nic(`{"name": "a"}`), "No interfaces supplied by the ramdisk"},
		{"bad MAC", nic(`{"name": "a", "mac_address": "zz"}`), "No interfaces supplied by the ramdisk"},
		{"too many", nic(many), "inventory.interfaces: 1025 items are more than the 1024 that are considered"},
		{"no address", nic(`{"name": "eth0", "mac_address": "52:54:00:99:99:99"}`),
			"No suitable interfaces found in {'eth0': {'ip': None, 'mac': '52:54:00:99:99:99', 'client_id': None, 'pxe': False}}"},
		{"what booted has no address",
			`{"inventory": {"interfaces": [{"name": "eth0", "mac_address": "52:54:00:99:99:99"}, {"name": "eth1", "mac_address": "52:54:00:99:99:98", "ipv4_address": "192.0.2.1"}]}, "boot_interface": "01-52-54-00-99-99-99"}`,
			"No suitable interfaces found in {'eth0': {'ip': None, 'mac': '52:54:00:99:99:99', 'client_id': None, 'pxe': True}, 'eth1': {'ip': '192.0.2.1', 'mac': '52:54:00:99:99:98', 'client_id': None, 'pxe': False}}"},
		{"another booted",
			`{"inventory": {"interfaces": [{"name": "it's", "mac_address": "52:54:00:99:99:99", "ipv4_address": "192.0.2.1", "client_id": "c\\"}]}, "boot_interface": "x"}`,
			`No suitable interfaces found in {"it's": {'ip': '192.0.2.1', 'mac': '52:54:00:99:99:99', 'client_id': 'c\\', 'pxe': False}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := parsed(t, tt.text)
			wantProblem(t, validateInterfaces{add: "pxe"}.Before(t.Context(), d), tt.want)
			if d.Has("macs") || d.Has("all_interfaces") {
				t.Error("a part of the result was set")
			}
			if macs := (validateInterfaces{add: "pxe"}).Choose(d); macs != nil && tt.name != "number for the BMC" {
				t.Errorf("chosen are %v", macs)
			}
		})
	}
}

// A MAC that cannot be one interface's own is no port.
func TestMACsThatNoInterfaceOwns(t *testing.T) {
	d := parsed(t, `{"inventory": {"interfaces": [{"name": "a", "mac_address": "52:54:00:00:00:01"}, {"name": "dummy0", "mac_address": "00:00:00:00:00:00"},
		{"name": "team0", "mac_address": "01:00:5E:00:00:01"}, {"name": "v6", "mac_address": "33:33:00:00:00:01"}, {"name": "b", "mac_address": "FF:ff:ff:ff:ff:ff"}]}}`)
	if macs := (validateInterfaces{add: "all"}).Choose(d); len(macs) != 1 || macs[0] != "52:54:00:00:00:01" {
		t.Errorf("own-mac: chosen are %v", macs)
	}
}

// grouped is the machine of the original's own functional tests, whose MACs have the
// group bit: it booted from eth1, and eth5 has the bit, too.
const grouped = `{"inventory": {"interfaces": [{"name": "eth1", "mac_address": "11:22:33:44:55:66", "ipv4_address": "192.0.2.1"},
	{"name": "eth5", "mac_address": "13:22:33:44:55:66", "ipv4_address": "192.0.2.5"}, {"name": "eth3", "mac_address": "66:55:44:33:22:11", "ipv4_address": "192.0.2.3"}]}`

// A MAC with the group bit is the node's if the machine booted from it or Ironic has a
// port for it: such a port is neither deleted nor in the way. By its form alone it gets
// no port.
func TestGroupBit(t *testing.T) {
	post := func(mac string, booted bool) string {
		return fmt.Sprintf(`POST port {"node_uuid":%q,"address":%q,"pxe_enabled":%v,"extra":{}}`, nodeA, mac, booted)
	}
	const booted = `, "boot_interface": "01-11-22-33-44-55-66"}`
	known := ironic.Port{UUID: "p5", Node: nodeA, Address: "13:22:33:44:55:66"}
	tests := []struct {
		name, add, more string
		ports           []ironic.Port
		chosen          string // for a discovery
		want            []string
	}{
		{"it booted", "pxe", booted, nil, "11:22:33:44:55:66", []string{getPorts, post("11:22:33:44:55:66", true)}},
		{"it booted, and all get ports", "all", booted, []ironic.Port{known}, "11:22:33:44:55:66 66:55:44:33:22:11",
			[]string{getPorts, post("11:22:33:44:55:66", true), post("66:55:44:33:22:11", false)}},
		{"Ironic has a port", "active", "}", []ironic.Port{known}, "66:55:44:33:22:11",
			[]string{getPorts, post("66:55:44:33:22:11", false)}},
		{"neither", "active", "}", nil, "66:55:44:33:22:11", []string{getPorts, post("66:55:44:33:22:11", false)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := &fakeIronic{node: ironic.Node{UUID: nodeA}, ports: tt.ports}
			h := validateInterfaces{add: tt.add, keep: "added"}
			d := parsed(t, grouped+tt.more)
			if got := strings.Join(h.Choose(d), " "); got != tt.chosen {
				t.Errorf("group-bit: chosen are %s, want %s", got, tt.chosen)
			}
			if err := h.Before(t.Context(), d); err != nil {
				t.Errorf("group-bit: refused: %v", err)
			}
			wantProblem(t, h.After(t.Context(), inspector.NewTask(d, i.node, i)), "")
			wantCalls(t, i, tt.want...)
		})
	}
}

// A card that says itself that it leads to its BMC gets no port, and one that Ironic has
// for it stays; the interface that booted gets one, what it may be.
func TestCardThatLeadsToItsBMC(t *testing.T) {
	const card = `{"inventory": {"interfaces": [{"name": "eth0", "mac_address": "52:54:00:1b:00:01", "ipv4_address": "192.0.2.1"},
		{"name": "enxbe3af2b6059f", "mac_address": "be:3a:f2:b6:05:9f", "ipv4_address": "169.254.3.7"}]}`
	post := func(mac string, booted bool) string {
		return fmt.Sprintf(`POST port {"node_uuid":%q,"address":%q,"pxe_enabled":%v,"extra":{}}`, nodeA, mac, booted)
	}
	for _, tt := range []struct {
		name, add, more string
		ports           []ironic.Port
		chosen          string
		want            []string
	}{
		{"with an address", "active", "}", nil, "52:54:00:1b:00:01", []string{getPorts, post("52:54:00:1b:00:01", false)}},
		{"all", "all", "}", nil, "52:54:00:1b:00:01", []string{getPorts, post("52:54:00:1b:00:01", false)}},
		{"Ironic has it", "active", "}", []ironic.Port{{UUID: "p", Node: nodeA, Address: "be:3a:f2:b6:05:9f"}},
			"52:54:00:1b:00:01", []string{getPorts, post("52:54:00:1b:00:01", false)}},
		{"it booted", "pxe", `, "boot_interface": "01-be-3a-f2-b6-05-9f"}`, nil, "be:3a:f2:b6:05:9f",
			[]string{getPorts, post("be:3a:f2:b6:05:9f", true)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := &fakeIronic{node: ironic.Node{UUID: nodeA}, ports: tt.ports}
			h, d := validateInterfaces{add: tt.add, keep: "added"}, parsed(t, card+tt.more)
			if got := strings.Join(h.Choose(d), " "); got != tt.chosen {
				t.Errorf("inner-port: chosen are %s, want %s", got, tt.chosen)
			}
			wantProblem(t, h.Before(t.Context(), d), "")
			wantProblem(t, h.After(t.Context(), inspector.NewTask(d, i.node, i)), "")
			if !slices.Equal(i.calls, tt.want) {
				t.Errorf("inner-port: %q, want %q", i.calls, tt.want)
			}
		})
	}
}

func TestOfTwoInterfacesWithOneNameTheLaterCounts(t *testing.T) {
	d := parsed(t,
		`{"inventory": {"interfaces": [{"name": "a", "mac_address": "52:54:00:00:00:01"}, {"name": "b", "mac_address": "52:54:00:00:00:02"}, {"name": "a", "mac_address": "52:54:00:00:00:03"}]}}`)
	wantProblem(t, validateInterfaces{add: "all"}.Before(t.Context(), d), "")
	if got, want := member(t, d, "macs"), `["52:54:00:00:00:03","52:54:00:00:00:02"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTheRefusalOfManyInterfacesIsBounded(t *testing.T) {
	var list []string
	for i := range identify.MaxInterfaces {
		list = append(list, fmt.Sprintf(`{"name": "eth%d", "mac_address": "52:54:00:00:%02x:%02x"}`, i, i>>8, i&255))
	}
	err := validateInterfaces{add: "active"}.Before(t.Context(),
		parsed(t, `{"inventory": {"interfaces": [`+strings.Join(list, ",")+`]}}`))
	if err == nil || len(err.Error()) > maxText+100 || !strings.HasSuffix(err.Error(), "…") {
		t.Errorf("%v", err)
	}
}

func TestTheRefusalOfLongNamesRepeatsThem(t *testing.T) {
	long := strings.Repeat("n", 1<<20)
	for _, field := range []string{`"name": "` + long + `"`, `"name": "n", "client_id": "` + long + `"`} {
		err := validateInterfaces{add: "active"}.Before(t.Context(),
			parsed(t, `{"inventory": {"interfaces": [{"mac_address": "52:54:00:00:00:01", `+field+`}]}}`))
		if err == nil || len(err.Error()) > maxText+100 ||
			!strings.HasPrefix(err.Error(), "No suitable interfaces found in {'n") {
			t.Errorf("%.200v", err)
		}
	}
}

func TestTheRefusalOfALongAddressIsBounded(t *testing.T) {
	d := parsed(t, `{"inventory": {"interfaces": [{"name": "a", "mac_address": "52:54:00:00:00:01", "ipv4_address": "`+
		strings.Repeat(`\u0001`, maxText)+`"}]}}`)
	if err := (validateInterfaces{add: "all"}).Before(t.Context(), d); err == nil || len(err.Error()) > maxText+100 {
		t.Errorf("%v", err)
	}
}

// ports are those of a node before: eth0's wrongly enabled, and one that is
// gone.
func ports() []ironic.Port {
	return []ironic.Port{
		{UUID: "p0", Node: nodeA, Address: "52:54:00:1b:00:01", PXEEnabled: true},
		{UUID: "p9", Node: nodeA, Address: "52:54:00:1b:00:99", PXEEnabled: true},
	}
}

// What is sent for sample.
const (
	getPorts = "GET ports"
	postEth1 = `POST port {"node_uuid":"` + nodeA +
		`","address":"52:54:00:1b:00:02","pxe_enabled":true,"extra":{"client-id":"ff:00:01"}}`
	postEth2 = `POST port {"node_uuid":"` + nodeA + `","address":"52:54:00:1b:00:03","pxe_enabled":false,"extra":{}}`
	fixEth0  = `PATCH p0 [{"op":"replace","path":"/pxe_enabled","value":false}]`
	deleteP9 = "DELETE p9"
	deleteP0 = "DELETE p0"
)

func TestPortsFollowInterfaces(t *testing.T) {
	tests := []struct {
		name, add, keep, state string
		leave                  bool // overwrite_existing is off
		unmarked               bool // update_pxe_enabled is off
		want                   []string
	}{
		{"defaults", "pxe", "all", "manageable", false, false, []string{getPorts, postEth1}},
		{"all that are there", "all", "present", "manageable", false, false,
			[]string{getPorts, postEth1, postEth2, deleteP9, fixEth0}},
		{"those with an address", "active", "present", "enroll", true, false, []string{getPorts, postEth1, deleteP9}},
		{"the added alone", "pxe", "added", "inspecting", false, false, []string{getPorts, postEth1, deleteP0, deleteP9}},
		{"none are added", "disabled", "all", "manageable", false, false, []string{getPorts, fixEth0}},
		{"none are added or fixed", "disabled", "all", "manageable", true, false, nil},
		{"none is marked", "all", "present", "manageable", false, true,
			[]string{getPorts, postEth1, strings.Replace(postEth2, "false", "true", 1), deleteP9}},
		{"of a deployed node they are only added", "all", "added", "active", false, false,
			[]string{getPorts, postEth1, postEth2}},
		{"of a rescued one too", "pxe", "present", "rescue", false, false, []string{getPorts, postEth1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := &fakeIronic{node: ironic.Node{UUID: nodeA, Provision: tt.state}, ports: ports()}
			made, err := validateInterfaces{}.configured(
				config.Inspection{Processing: config.Processing{AddPorts: tt.add, KeepPorts: tt.keep, OverwriteExisting: !tt.leave,
					UpdatePXEEnabled: !tt.unmarked}})
			if err != nil {
				t.Fatal(err)
			}
			h := made.(validateInterfaces)
			d := parsed(t, sample)
			wantProblem(t, h.Before(t.Context(), d), "")
			wantProblem(t, h.After(t.Context(), inspector.NewTask(d, i.node, i)), "")
			wantCalls(t, i, tt.want...)
		})
	}
}

// TestDoneTwiceNothingIsSentAgain repeats the hook with the ports that the
// first time left.
func TestDoneTwiceNothingIsSentAgain(t *testing.T) {
	i := &fakeIronic{node: ironic.Node{UUID: nodeA}, ports: ports()}
	h := validateInterfaces{add: "all", keep: "present", overwrite: true}
	d := parsed(t, sample)
	wantProblem(t, h.Before(t.Context(), d), "")
	task := inspector.NewTask(d, i.node, i)
	wantProblem(t, h.After(t.Context(), task), "")
	i.calls = nil
	wantProblem(t, h.After(t.Context(), task), "")
	wantCalls(t, i)
	left, err := task.Ports(t.Context())
	if err != nil || len(left) != 3 || left[0].PXEEnabled || !left[1].PXEEnabled {
		t.Errorf("%+v, %v", left, err)
	}
}

func TestInterfacesThatShareAMAC(t *testing.T) {
	i := &fakeIronic{node: ironic.Node{UUID: nodeA}}
	h := validateInterfaces{add: "all", keep: "added", overwrite: true}
	d := parsed(t,
		`{"inventory": {"interfaces": [{"name": "bond0", "mac_address": "52:54:00:1b:00:03"}, {"name": "eth0", "mac_address": "52:54:00:1b:00:03"}]}}`)
	wantProblem(t, h.Before(t.Context(), d), "")
	wantProblem(t, h.After(t.Context(), inspector.NewTask(d, i.node, i)), "")
	wantCalls(t, i, getPorts, postEth2)
}

func TestFailuresOfIronic(t *testing.T) {
	broken := &ironic.Error{Status: 500, Message: "no conductor"}
	proxy := &ironic.Error{Status: 404, Message: "default backend - 404"} // Ironic's own is no error of DeletePort
	whole := []string{getPorts, postEth1, postEth2, deleteP9, fixEth0}
	tests := []struct {
		name, line string
		err        error
		want       string // the error, "" for none
		calls      []string
	}{
		{"listing", getPorts, broken, "list ports of node " + nodeA + ": no conductor", whole[:1]},
		{"creating", postEth1, broken, "create port 52:54:00:1b:00:02: no conductor", whole[:2]},
		{"a port that exists: the list is out of date", postEth1, ironic.ErrPortExists, "",
			[]string{getPorts, postEth1, postEth2, getPorts, deleteP9, fixEth0}},
		{"deleting", deleteP9, broken, "delete port 52:54:00:1b:00:99: no conductor", whole[:4]},
		{"deleting while a proxy has no route", deleteP9, proxy, "delete port 52:54:00:1b:00:99: default backend - 404",
			whole[:4]},
		{"fixing", fixEth0, broken, "set pxe_enabled of port 52:54:00:1b:00:01: no conductor", whole},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := &fakeIronic{node: ironic.Node{UUID: nodeA}, ports: ports(), faults: map[string]error{tt.line: tt.err}}
			h := validateInterfaces{add: "all", keep: "present", overwrite: true}
			d := parsed(t, sample)
			wantProblem(t, h.Before(t.Context(), d), "")
			err := h.After(t.Context(), inspector.NewTask(d, i.node, i))
			if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, tt.err) || err.Error() != tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			wantCalls(t, i, tt.calls...)
		})
	}
}

// TestWithoutInterfacesNoPortIsDeleted runs After alone.
func TestWithoutInterfacesNoPortIsDeleted(t *testing.T) {
	i := &fakeIronic{node: ironic.Node{UUID: nodeA}, ports: ports()}
	for text, want := range map[string]string{
		`{}`: "all_interfaces: no interfaces were chosen",
		`{"all_interfaces": {"a": {"mac": "x"}}, "interfaces": null}`: "interfaces: no interfaces were chosen",
		`{"all_interfaces": [1]}`:                                     `all_interfaces: expected an object, got a list`,
		`{"all_interfaces": {"a": [1]}}`:                              `all_interfaces: interface "a": json: cannot unmarshal array into Go value of type hooks.nicData`,
	} {
		wantProblem(t, validateInterfaces{add: "pxe", keep: "present"}.After(t.Context(),
			inspector.NewTask(parsed(t, text), i.node, i)), want)
	}
	wantCalls(t, i)
}

// BenchmarkBefore is what every callback costs before it is saved: 16
// interfaces with what switches announce to them, 25 KB.
func BenchmarkBefore(b *testing.B) {
	var list []string
	for i := range 16 {
		list = append(list, fmt.Sprintf(
			`{"name": "eth%d", "mac_address": "52:54:00:00:00:%02x", "ipv4_address": "192.0.2.%d", "lldp": [%s[0, ""]], "has_carrier": true}`,
			i, i, i, strings.Repeat(`[127, "0080c203006408766c616e2d3130300080c203006408766c616e2d313030"], `, 20)))
	}
	text := []byte(`{"inventory": {"interfaces": [` + strings.Join(list, ", ") + `], "disks": ` + labDisks + `}}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		d, err := document.Parse(text)
		if err != nil {
			b.Fatal(err)
		}
		if err := (validateInterfaces{add: "all"}).Before(b.Context(), d); err != nil {
			b.Fatal(err)
		}
	}
}
