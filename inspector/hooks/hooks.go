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

// configurable is a hook that is made of settings.
type configurable interface {
	configured(conf config.Inspection) (inspector.Hook, error)
}

var _ = [...]configurable{accelerators{}, capabilities{}, extraHardware{}, localLinkConnection{}, pciDevices{},
	physnetCIDRMap{}, rootDiskSelection{}, scheduler{}, validateInterfaces{}}

// registry lists the hooks there are, by name.
func registry() []inspector.Hook {
	return []inspector.Hook{
		accelerators{},
		capabilities{},
		example{},
		extraHardware{},
		lldpBasic{},
		localLinkConnection{},
		pciDevices{},
		physnetCIDRMap{},
		raidDevice{},
		ramdiskError{},
		rootDiskSelection{},
		scheduler{},
		validateInterfaces{},
	}
}

// Names lists the hooks there are.
func Names() (names []string) {
	for _, h := range registry() {
		names = append(names, h.Name())
	}
	return names
}

// New makes the configured hooks, in the configured order. All unknown names
// are reported at once.
func New(conf config.Inspection) ([]inspector.Hook, error) {
	known := registry()
	var made []inspector.Hook
	var unknown []string
	for _, name := range conf.Processing.Hooks {
		i := slices.IndexFunc(known, func(h inspector.Hook) bool { return h.Name() == name })
		if i < 0 {
			unknown = append(unknown, fmt.Sprintf("%q", name))
			continue
		}
		hook := known[i]
		if c, ok := hook.(configurable); ok {
			var err error
			if hook, err = c.configured(conf); err != nil {
				return nil, fmt.Errorf("hook %s: %w", name, err)
			}
		}
		made = append(made, hook)
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("inspection.processing.processing_hooks: there is no hook %s; take some of %s",
			strings.Join(unknown, ", "), strings.Join(Names(), ", "))
	}
	return made, nil
}
