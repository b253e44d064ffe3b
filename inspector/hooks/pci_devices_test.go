package hooks

import (
	"testing"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/inspector"
)

func TestPCIDevices(t *testing.T) {
	const devices = `[{"vendor_id": "8086", "product_id": "1572"}, {"vendor_id": "10de", "product_id": "1eb8", "bus": "b"}, {"vendor_id": "8086", "product_id": "1572"}, {"vendor_id": "8086", "product_id": "1573"}]`
	none := map[string]any(nil)
	tests := []struct {
		name, devices string
		aliases       []string
		properties    map[string]any
		want          string // the list; "" if nothing is sent
	}{
		{"counted", devices, []string{"10de:1eb8:t4", "8086:1572:x710"}, map[string]any{"capabilities": "a:b,t4:7"},
			"a:b,t4:1,x710:2"},
		{"several kinds under one name", devices, []string{"8086:1572:nic", "8086:1573:nic"}, none, "nic:3"},
		{"none of them there", devices, []string{"8086:ffff:x"}, none, ""},
		{"no aliases", `[5]`, nil, none, ""},
		{"no devices", `null`, []string{"8086:1572:x710"}, none, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conf := defaults()
			conf.HookOptions.PCIAlias = tt.aliases
			made, err := pciDevices{}.configured(conf)
			if err != nil {
				t.Fatal(err)
			}
			i := &fakeIronic{node: ironic.Node{UUID: nodeA, Properties: tt.properties}}
			d := parsed(t, `{"pci_devices": `+tt.devices+`}`)
			wantProblem(t, made.(inspector.After).After(t.Context(), inspector.NewTask(d, i.node, i)), "")
			if tt.want == "" {
				wantCalls(t, i)
			} else {
				wantCalls(t, i, addCaps(tt.want))
			}
		})
	}
}

func TestPCIDevicesFail(t *testing.T) {
	h := pciDevices{map[pciID]string{{"8086", "1572"}: "x710"}}
	for text, want := range map[string]string{
		`{"pci_devices": {}}`:                                    "pci_devices: expected a list, got an object",
		`{"pci_devices": [{}, 5]}`:                               "pci_devices[1]: expected an object, got a number",
		`{"pci_devices": [{"vendor_id": 8086}]}`:                 "pci_devices[0].vendor_id: expected text, got a number",
		`{"pci_devices": [{"vendor_id": "", "product_id": []}]}`: "pci_devices[0].product_id: expected text, got a list",
	} {
		i := &fakeIronic{node: ironic.Node{UUID: nodeA}}
		wantProblem(t, h.After(t.Context(), inspector.NewTask(parsed(t, text), i.node, i)), want)
		wantCalls(t, i)
	}
}
