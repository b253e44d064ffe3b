package hooks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/inspector"
)

func TestAccelerators(t *testing.T) {
	file := filepath.Join(t.TempDir(), "devices.yaml")
	const content = "pci_devices:\n- {vendor_id: '8086', device_id: '1572', type: NIC, speed: 10}\n- {vendor_id: '8086', device_id: '1572', type: other}\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	const devices = `[{"vendor_id": "8086", "product_id": "1572", "bus": "0000:18:00.0"}, {"vendor_id": "10de", "product_id": "1eb8", "bus": "0000:82:00.0"}, {"vendor_id": "10de", "product_id": "1eb8"}]`
	tests := []struct{ name, file, devices, want string }{
		{"built in", "", devices,
			`[{"device_id":"1eb8","device_info":"NVIDIA Corporation Tesla T4","pci_address":"0000:82:00.0","type":"GPU","vendor_id":"10de"},` +
				`{"device_id":"1eb8","device_info":"NVIDIA Corporation Tesla T4","pci_address":"","type":"GPU","vendor_id":"10de"}]`},
		{"of a file", file, devices,
			`[{"device_id":"1572","pci_address":"0000:18:00.0","speed":10,"type":"NIC","vendor_id":"8086"}]`},
		{"none", "", `[{"vendor_id": "8086", "product_id": "1572"}]`, ""},
		{"no devices", "", `null`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conf := defaults()
			conf.HookOptions.KnownAccelerators = tt.file
			made, err := accelerators{}.configured(conf)
			if err != nil {
				t.Fatal(err)
			}
			i := &fakeIronic{node: ironic.Node{UUID: nodeA}}
			d := parsed(t, `{"pci_devices": `+tt.devices+`}`)
			wantProblem(t, made.(inspector.After).After(t.Context(), inspector.NewTask(d, i.node, i)), "")
			if tt.want == "" {
				wantCalls(t, i)
			} else {
				wantCalls(t, i, `PATCH node [{"op":"add","path":"/properties/accelerators","value":`+tt.want+`}]`)
			}
		})
	}
	i := &fakeIronic{node: ironic.Node{UUID: nodeA}}
	task := inspector.NewTask(parsed(t, `{"pci_devices": [{"vendor_id": "10de", "product_id": "1eb8", "bus": 5}]}`),
		i.node, i)
	made, err := accelerators{}.configured(defaults())
	if err != nil {
		t.Fatal(err)
	}
	wantProblem(t, made.(inspector.After).After(t.Context(), task), "pci_devices[0].bus: expected text, got a number")
}

// TestDatesOfAccelerators: a date is what was written.
func TestDatesOfAccelerators(t *testing.T) {
	file := filepath.Join(t.TempDir(), "devices.yaml")
	const devices = "pci_devices: [{vendor_id: aaaa, device_id: bbbb, bought: 2024-01-31}]"
	if err := os.WriteFile(file, []byte(devices), 0o600); err != nil {
		t.Fatal(err)
	}
	known, err := readDevices(file)
	if got := known[pciID{"aaaa", "bbbb"}]["bought"]; err != nil || got != "2024-01-31" {
		t.Errorf("dates-are-text: %v (%v)", got, err)
	}
}

func TestFilesOfAcceleratorsThatAreNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "devices.yaml")
	for content, want := range map[string]string{
		"":                                 "there is no list pci_devices; leave the option empty for the devices that Trivet knows",
		"pci_devices: []":                  "there is no list pci_devices",
		"pci_devices: 5":                   "cannot unmarshal",
		"pci_devices: [{vendor_id: 8086}]": "pci_devices[0]: vendor_id and device_id must be text; write them in quotes",
		"{":                                "yaml: ",
		strings.Repeat("#", maxDeviceFile) + "\n": "has more than 1048576 bytes",
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		conf := chosen("scheduler", "accelerators")
		conf.HookOptions.KnownAccelerators = file
		_, err := New(conf)
		if err == nil || !strings.HasPrefix(err.Error(), "hook accelerators: inspection.accelerators.known_devices: "+file) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", content, err, want)
		}
	}
	conf := chosen("accelerators")
	conf.HookOptions.KnownAccelerators = file + ".none"
	if _, err := New(conf); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
}
