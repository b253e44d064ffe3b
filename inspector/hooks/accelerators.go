package hooks

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"go.yaml.in/yaml/v3"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/internal/bounds"
)

// accelerators tells Ironic which PCI devices are accelerators.
type accelerators struct{ known map[pciID]map[string]any }

var _ inspector.After = accelerators{}

// configured implements configurable: it reads the file of known devices, once.
func (accelerators) configured(conf config.Inspection) (inspector.Hook, error) {
	if path := conf.HookOptions.KnownAccelerators; path != "" {
		known, err := readDevices(path)
		if err != nil {
			return nil, fmt.Errorf("inspection.accelerators.known_devices: %w", err)
		}
		return accelerators{known}, nil
	}
	known := make(map[pciID]map[string]any) // what the original knows
	for product, info := range map[string]string{"1eb8": "NVIDIA Corporation Tesla T4",
		"1df6": "NVIDIA Corporation GV100GL"} {
		known[pciID{"10de", product}] = map[string]any{"vendor_id": "10de", "device_id": product, "type": "GPU",
			"device_info": info}
	}
	return accelerators{known}, nil
}

// readDevices reads a file in the original's form: a list pci_devices whose
// items have a vendor_id, a device_id, and what else Ironic shall be told.
func readDevices(path string) (map[pciID]map[string]any, error) {
	raw, _, err := bounds.ReadFile(path, maxDeviceFile)
	if err != nil {
		return nil, err
	}
	var content struct {
		Devices []map[string]any `yaml:"pci_devices"`
	}
	var root yaml.Node
	err = yaml.Unmarshal(raw, &root)
	config.DatesAsText(&root)
	if err = errors.Join(err, root.Decode(&content)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(content.Devices) == 0 {
		return nil, fmt.Errorf("%s: there is no list pci_devices; leave the option empty for the devices that Trivet knows",
			path)
	}
	known := make(map[pciID]map[string]any)
	for i, device := range content.Devices {
		vendor, ok := device["vendor_id"].(string)
		product, also := device["device_id"].(string)
		if !ok || !also {
			return nil, fmt.Errorf("%s: pci_devices[%d]: vendor_id and device_id must be text; write them in quotes", path, i)
		}
		if _, twice := known[pciID{vendor, product}]; !twice { // of two the first counts
			known[pciID{vendor, product}] = device
		}
	}
	return known, nil
}

// Name implements inspector.Hook.
func (accelerators) Name() string { return "accelerators" }

// After implements inspector.After.
func (h accelerators) After(ctx context.Context, t *inspector.Task) error {
	var found []map[string]any
	all, err := eachKnown(t.Data, h.known, func(device object, known map[string]any) error {
		bus, err := device.text("bus")
		told := maps.Clone(known)
		told["pci_address"] = bus
		found = append(found, told)
		return err
	})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		t.Log.Debug("no known accelerators", "node", t.Node().UUID, "count", all)
		return nil
	}
	return setProperty(ctx, t, "accelerators", found)
}
