package hooks

import (
	"net/netip"
	"testing"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/config"
)

// labNetworks are those of 172.24.0.0/16:physnet_lab.
var labNetworks = []physicalNetwork{{netip.MustParsePrefix("172.24.0.0/16"), "physnet_lab"}}

func TestPhysnetCIDRMap(t *testing.T) {
	network := func(port, name string) string {
		return `PATCH ` + port + ` [{"op":"add","path":"/physical_network","value":"` + name + `"}]`
	}
	tests := []struct {
		name string
		list []string
		keep bool // overwrite_existing is off
		want []string
	}{
		{"as recorded", []string{"172.24.0.0/16:physnet_lab"}, false, []string{getPorts, network("p0", "physnet_lab")}},
		{"never set when existing is kept", []string{"172.24.0.0/16:physnet_lab", "fd00::/8:new"}, true, nil},
		{"by IPv6, another before", []string{"FD00::/8:new"}, false, []string{getPorts, network("p1", "new")}},
		{"as it is", []string{"fd00::/8:old"}, false, []string{getPorts}},
		{"the first counts", []string{"172.24.42.0/24:a", "172.24.0.0/16:b", "0.0.0.0/0:c"}, false,
			[]string{getPorts, network("p0", "a")}},
		{"IPv4 goes first", []string{"fe80::/64:six", "172.24.0.0/16:four"}, false,
			[]string{getPorts, network("p0", "four")}},
		{"IPv6 if IPv4 is in none", []string{"fe80::/64:six", "10.0.0.0/8:four"}, false,
			[]string{getPorts, network("p0", "six")}},
		{"bits behind the mask", []string{"172.24.0.1/16:a"}, false, []string{getPorts, network("p0", "a")}},
		{"in none", []string{"10.0.0.0/8:a"}, false, nil},
		{"no networks", nil, false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := made(t, tt.list, !tt.keep)
			i := &fakeIronic{node: ironic.Node{UUID: nodeA}, ports: labPorts()}
			_, _, err := after(t, h, cabled(), i)
			wantProblem(t, err, "")
			wantCalls(t, i, tt.want...)
		})
	}
}

func made(t *testing.T, list []string, overwrite bool) physnetCIDRMap {
	t.Helper()
	h, err := physnetCIDRMap{}.configured(
		config.Inspection{Processing: config.Processing{OverwriteExisting: overwrite},
			HookOptions: config.HookOptions{CIDRMap: list}})
	if err != nil {
		t.Fatal(err)
	}
	return h.(physnetCIDRMap)
}

func TestPhysicalNetworksOfStrangeAddresses(t *testing.T) {
	h := made(t, []string{"0.0.0.0/0:four", "::/0:six"}, true)
	for address, want := range map[string]string{`"192.0.2.1"`: "four", `"::ffff:192.0.2.1"`: "six",
		`"fe80::1%eth0"`: "six", `"010.0.0.1"`: "", `""`: "", `null`: "", `"n/a"`: ""} {
		links, err := linksOf(parsed(t,
			`{"inventory": {"interfaces": [{"name": "a", "ipv4_address": `+address+`}]}, "all_interfaces": {"a": {}}}`))
		if err != nil || len(links) != 1 {
			t.Fatalf("%+v, %v", links, err)
		}
		if got, err := h.network(links[0]); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", address, got, err, want)
		}
	}
}

func TestAPortThatIsDeployedKeepsItsNetwork(t *testing.T) {
	patch := `PATCH p0 [{"op":"add","path":"/physical_network","value":"physnet_lab"}]`
	for status, want := range map[int]string{400: "",
		409: "set physical_network of port 52:54:00:06:00:00: Ironic's word"} {
		i := &fakeIronic{node: ironic.Node{UUID: nodeA}, ports: labPorts(), faults: map[string]error{patch: refusal(status)}}
		_, _, err := after(t, made(t, []string{"172.24.0.0/16:physnet_lab"}, true), cabled(), i)
		if got := text(err); got != want {
			t.Errorf("%d: got %s, want %s", status, got, want)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestMapsThatAreNone(t *testing.T) {
	for item, want := range map[string]string{
		"10.0.0.0/8":    `inspection.port_physnet.cidr_map: "10.0.0.0/8" is not CIDR:NETWORK`,
		"10.0.0.0/8:":   `inspection.port_physnet.cidr_map: "10.0.0.0/8:" is not CIDR:NETWORK`,
		"fd00::/8":      `inspection.port_physnet.cidr_map: "fd00::/8": netip.ParsePrefix("fd00:"): no '/'`,
		"10.0.0.0/33:a": `inspection.port_physnet.cidr_map: "10.0.0.0/33:a": netip.ParsePrefix("10.0.0.0/33"): prefix length out of range`,
	} {
		_, err := physnetCIDRMap{}.configured(config.Inspection{HookOptions: config.HookOptions{CIDRMap: []string{item}}})
		if err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}
