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

// configured implements configurable.
func (pciDevices) configured(conf config.Inspection) (inspector.Hook, error) {
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
	counts := make(map[string]int)
	var seen []string // in the order in which they are met
	_, err := eachKnown(t.Data, h.aliases, func(_ object, name string) error {
		if counts[name]++; counts[name] == 1 {
			seen = append(seen, name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var found []capability
	for _, name := range seen {
		found = append(found, capability{name, strconv.Itoa(counts[name])})
	}
	return addCapabilities(ctx, t, found)
}

// eachKnown goes through the PCI devices of a machine that are known, and returns how many it has; none
// if its ramdisk did not look for them.
func eachKnown[T any](d *document.Document, known map[pciID]T, each func(device object, as T) error) (int, error) {
	devices, err := objectsOf("pci_devices", d.Value("pci_devices"), maxPCIDevices)
	if err != nil {
		return 0, err
	}
	for _, device := range devices {
		vendor, err := device.text("vendor_id")
		if err != nil {
			return 0, err
		}
		product, err := device.text("product_id")
		if err != nil {
			return 0, err
		}
		if as, is := known[pciID{vendor, product}]; is {
			if err := each(device, as); err != nil {
				return 0, err
			}
		}
	}
	return len(devices), nil
}
