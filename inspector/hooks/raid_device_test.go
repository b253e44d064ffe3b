package hooks

import (
	"errors"
	"testing"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/inspector"
)

func TestRAIDDeviceHasASize(t *testing.T) {
	for text, want := range map[string]string{`{}`: "1", `{"local_gb": 0}`: "1", `{"local_gb": null}`: "1",
		`{"local_gb": 7}`: "7", `{"local_gb": "7"}`: `"7"`} {
		d := parsed(t, text)
		wantProblem(t, raidDevice{}.Before(t.Context(), d), "")
		if got := member(t, d, "local_gb"); got != want {
			t.Errorf("%s gets %s, want %s", text, got, want)
		}
	}
}

func TestRAIDDevice(t *testing.T) {
	const two = `{"inventory": {"disks": [{"serial": "a"}, {"serial": "b"}, {"serial": ""}, {"serial": null}, {}]}}`
	before := func(serials ...any) map[string]any {
		return map[string]any{"block_devices": map[string]any{"serials": serials}}
	}
	keep := `PATCH node [{"op":"add","path":"/extra/block_devices","value":{"serials":["a","b"]}}]`
	tests := []struct {
		name, text        string
		extra, properties map[string]any
		want              []string
	}{
		{"first run", two, nil, nil, []string{keep}},
		{"first run of an old ramdisk", `{"block_devices": {"serials": ["a", "b"]}}`, nil, nil, []string{keep}},
		{"second run", two, before("a"), nil,
			[]string{
				`PATCH node [{"op":"remove","path":"/extra/block_devices"},{"op":"add","path":"/properties/root_device","value":{"serial":"b"}}]`}},
		{"second run, nothing is new", two, before("b", "c", "a"), nil, nil},
		{"second run, two are new", two, before(), nil, nil},
		{"known already", two, nil, map[string]any{"root_device": nil}, nil},
		{"no disks", `{"inventory": {"disks": []}, "block_devices": {"serials": ["a"]}}`, nil, nil, nil},
		{"no list of disks", `{"inventory": {}}`, nil, nil, nil},
		{"nothing", `{}`, nil, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := &fakeIronic{node: ironic.Node{UUID: nodeA, Extra: tt.extra, Properties: tt.properties}}
			wantProblem(t, raidDevice{}.After(t.Context(), inspector.NewTask(parsed(t, tt.text), i.node, i)), "")
			wantCalls(t, i, tt.want...)
		})
	}
}

func TestRAIDDeviceFails(t *testing.T) {
	const one = `{"inventory": {"disks": [{"serial": "a"}]}}`
	tests := []struct {
		name, text string
		extra      map[string]any
		want       string
	}{
		{"list for an inventory", `{"inventory": []}`, nil, "inventory: expected an object, got a list"},
		{"text for disks", `{"inventory": {"disks": "a"}}`, nil, "inventory.disks: expected a list, got text"},
		{"number for a serial number", `{"inventory": {"disks": [{"serial": 5}]}}`, nil,
			"inventory.disks[0].serial: expected text, got a number"},
		{"list for devices", `{"block_devices": []}`, nil, "block_devices: expected an object, got a list"},
		{"text for serial numbers", `{"block_devices": {"serials": "a"}}`, nil,
			"block_devices.serials: expected a list, got text"},
		{"list for a serial number", `{"block_devices": {"serials": [[]]}}`, nil,
			"block_devices.serials[0]: expected text, got a list"},
		{"what another program left", one, map[string]any{"block_devices": "a"},
			"extra.block_devices of the node: expected an object with serials, got 'a'; remove it to begin again"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := &fakeIronic{node: ironic.Node{UUID: nodeA, Extra: tt.extra}}
			wantProblem(t, raidDevice{}.After(t.Context(), inspector.NewTask(parsed(t, tt.text), i.node, i)), tt.want)
			wantCalls(t, i)
		})
	}

	broken := &ironic.Error{Status: 500, Message: "no conductor"}
	i := &fakeIronic{node: ironic.Node{UUID: nodeA},
		faults: map[string]error{`PATCH node [{"op":"add","path":"/extra/block_devices","value":{"serials":["a"]}}]`: broken}}
	err := raidDevice{}.After(t.Context(), inspector.NewTask(parsed(t, one), i.node, i))
	if !errors.Is(err, broken) || err.Error() != "keep block devices of node "+nodeA+": no conductor" {
		t.Errorf("got %v", err)
	}
}
