package hooks

import (
	"context"
	"strconv"
	"strings"

	"github.com/trivet-ha/trivet/inspector/document"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector"
)

// pciID tells a kind of device, as four hexadecimal digits each.
type pciID struct{ vendor, product string }

// pciDevices counts the devices that have an alias.
type pciDevices struct{ aliases map[pciID]string }

var _ inspector.After = pciDevices{}

func newPCIDevices(conf config.Inspection) (inspector.Hook, error) {
	aliases := make(map[pciID]string)
	for _, alias := range conf.HookOptions.PCIAlias {
		vendor, rest, _ := strings.Cut(alias, ":")
		product, name, _ := strings.Cut(rest, ":")
		aliases[pciID{vendor, product}] = name
	}
	return pciDevices{aliases}, nil
}

// Name implements inspector.Hook.
func (pciDevices) Name() string { return "pci_devices" }

// After implements inspector.After. Without aliases it does not look at the
// devices. Devices of several kinds with one alias are counted together.
func (h pciDevices) After(ctx context.Context, t *inspector.Task) error {
	if len(h.aliases) == 0 {
		return nil
	}
	devices, err := pciDevicesOf(t.Data)
	if err != nil {
		return err
	}
	counts := make(map[string]int)
	var seen []string // in the order in which they are met
	for _, device := range devices {
		id, err := idOf(device)
		if err != nil {
			return err
		}
		name, known := h.aliases[id]
		if !known {
			continue
		}
		if counts[name] == 0 {
			seen = append(seen, name)
		}
		counts[name]++
	}
	var found []capability
	for _, name := range seen {
		found = append(found, capability{name, strconv.Itoa(counts[name])})
	}
	return addCapabilities(ctx, t, found)
}

// pciDevicesOf returns the PCI devices of a machine; none if its ramdisk did not
// look for them.
func pciDevicesOf(d *document.Document) ([]object, error) {
	return objectsOf("pci_devices", d.Value("pci_devices"), maxPCIDevices)
}

func idOf(device object) (pciID, error) {
	vendor, err := device.text("vendor_id")
	if err != nil {
		return pciID{}, err
	}
	product, err := device.text("product_id")
	return pciID{vendor, product}, err
}
