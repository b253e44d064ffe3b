// Package hooks holds the processing hooks, the steps by which a ramdisk's data is
// processed, one file each. To add one, write a file with its test and add a row to the
// table of hooks in hooks.go, and its limits to those in limits.go.
package hooks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector"
)

// entry names a hook and says how it is made.
type entry struct {
	name string
	make func(config.Inspection) (inspector.Hook, error)
}

// registry lists the hooks there are, by name.
func registry() []entry {
	return []entry{
		{"accelerators", newAccelerators},
		{"capabilities", newCapabilities},
		{"example", fixed(example{})},
		{"extra_hardware", newExtraHardware},
		{"lldp_basic", fixed(lldpBasic{})},
		{"local_link_connection", newLocalLinkConnection},
		{"pci_devices", newPCIDevices},
		{"physnet_cidr_map", newPhysnetCIDRMap},
		{"raid_device", fixed(raidDevice{})},
		{"ramdisk_error", fixed(ramdiskError{})},
		{"root_disk_selection", newRootDiskSelection},
		{"scheduler", newScheduler},
		{"validate_interfaces", newValidateInterfaces},
	}
}

// fixed makes a hook that has no settings.
func fixed(h inspector.Hook) func(config.Inspection) (inspector.Hook, error) {
	return func(config.Inspection) (inspector.Hook, error) { return h, nil }
}

// Names lists the hooks there are.
func Names() []string { return names(registry()) }

// New makes the configured hooks, in the configured order. All unknown names
// are reported at once.
func New(conf config.Inspection) ([]inspector.Hook, error) {
	known := registry()
	var made []inspector.Hook
	var unknown []string
	for _, name := range conf.Processing.Hooks {
		i := slices.IndexFunc(known, func(e entry) bool { return e.name == name })
		if i < 0 {
			unknown = append(unknown, fmt.Sprintf("%q", name))
			continue
		}
		hook, err := known[i].make(conf)
		if err != nil {
			return nil, fmt.Errorf("hook %s: %w", name, err)
		}
		made = append(made, hook)
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("inspection.processing.processing_hooks: there is no hook %s; take some of %s",
			strings.Join(unknown, ", "), strings.Join(names(known), ", "))
	}
	return made, nil
}

func names(entries []entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.name)
	}
	return out
}
