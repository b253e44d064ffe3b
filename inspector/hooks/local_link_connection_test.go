package hooks

import (
	"testing"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/config"
)

// labPorts are those of the machine of cabled, and one that it does not have.
func labPorts() []ironic.Port {
	return []ironic.Port{
		{UUID: "p0", Node: nodeA, Address: "52:54:00:06:00:00"},
		{UUID: "p1", Node: nodeA, Address: "52:54:00:06:00:01", LocalLink: map[string]any{"switch_info": "rack 7"},
			PhysicalNetwork: "old"},
		{UUID: "p9", Node: nodeA, Address: "52:54:00:06:00:99"},
	}
}

// What is sent for cabled: eth1's switch has no MAC.
const (
	patchEth0 = `PATCH p0 [{"op":"add","path":"/local_link_connection/switch_id","value":"00:1b:54:aa:01:01"},{"op":"add","path":"/local_link_connection/port_id","value":"Ethernet1/1"}]`
	patchEth1 = `PATCH p1 [{"op":"add","path":"/local_link_connection/port_id","value":"00:1b:54:aa:02:99"}]`
)

func TestLocalLinkConnection(t *testing.T) {
	both := func() []ironic.Port {
		ports := labPorts()
		ports[0].LocalLink = map[string]any{"switch_id": "00:00:00:00:00:01", "port_id": ""}
		return ports
	}
	one := func() []ironic.Port {
		ports := labPorts()
		ports[0].LocalLink = map[string]any{"port_id": "1"}
		return ports
	}
	tests := []struct {
		name, text string
		ports      []ironic.Port
		keep       bool // overwrite_existing is off
		want       []string
	}{
		{"as recorded", cabled(), labPorts(), false, []string{getPorts, patchEth0, patchEth1}},
		{"set again", cabled(), both(), false, []string{getPorts, patchEth0, patchEth1}},
		{"kept", cabled(), both(), true, []string{getPorts, `PATCH p0 []`, patchEth1}},
		{"what is absent is set", cabled(), one(), true,
			[]string{getPorts, `PATCH p0 [{"op":"add","path":"/local_link_connection/switch_id","value":"00:1b:54:aa:01:01"}]`,
				patchEth1}},
		{"no ports", cabled(), nil, false, []string{getPorts}},
		{"no packet was heard", machine("", said("null"), ""), labPorts(), false, nil},
		{"nothing was heard", machine(said("[]"), "", ""), labPorts(), false, []string{getPorts, `PATCH p0 []`}},
		{"of newer ramdisks", machine("", said("[]"), `, "lldp_raw": {"eth0": `+eth0LLDP+`}`), labPorts(), false,
			[]string{getPorts, patchEth0, `PATCH p1 []`}},
		{"lengths that lie", machine(said(`[[1, "0411"], [2, "05"], [1, "0800"], [4, "zz"]]`), "", ""), labPorts(), false,
			[]string{getPorts, `PATCH p0 []`}},
		{"the first counts", machine(said(`[[2, "0761"], [2, "0762"], [1, "04000000000001"], [1, "04000000000002"]]`), "",
			""), labPorts(), false,
			[]string{getPorts,
				`PATCH p0 [{"op":"add","path":"/local_link_connection/switch_id","value":"00:00:00:00:00:01"},{"op":"add","path":"/local_link_connection/port_id","value":"a"}]`}},
		{"a chassis with an address", machine(said(`[[1, "0501c0000201"]]`), "", ""), labPorts(), false,
			[]string{getPorts, `PATCH p0 []`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			made, err := localLinkConnection{}.configured(
				config.Inspection{Processing: config.Processing{OverwriteExisting: !tt.keep}})
			if err != nil {
				t.Fatal(err)
			}
			i := &fakeIronic{node: ironic.Node{UUID: nodeA}, ports: tt.ports}
			_, _, err = after(t, made.(localLinkConnection), tt.text, i)
			wantProblem(t, err, "")
			wantCalls(t, i, tt.want...)
		})
	}
}

// TestLinksOfAMachineThatShouts has a MAC in capitals, which Ironic keeps in
// small letters.
func TestLinksOfAMachineThatShouts(t *testing.T) {
	i := &fakeIronic{ports: []ironic.Port{{UUID: "p", Address: "52:54:00:ab:cd:ef"}}}
	_, _, err := after(t, localLinkConnection{},
		`{"inventory": {"interfaces": [{"name": "a", "mac_address": "52:54:00:AB:CD:EF", "lldp": [[2, "0761"]]}]}}`, i)
	wantProblem(t, err, "")
	wantCalls(t, i, getPorts, `PATCH p [{"op":"add","path":"/local_link_connection/port_id","value":"a"}]`)
}
