package hooks

import (
	"context"
	"strings"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
)

// capabilities tells schedulers what a machine's CPU can do, and how it booted.
type capabilities struct {
	bootMode bool
	flags    []capability // what each flag of the CPU is called, in the order in which they are written
}

// capability is a name and a value among a node's capabilities.
type capability struct{ name, value string }

var _ inspector.After = capabilities{}

// configured implements configurable.
func (capabilities) configured(conf config.Inspection) (inspector.Hook, error) {
	h := capabilities{bootMode: conf.HookOptions.Capabilities.BootMode}
	for _, pair := range conf.HookOptions.Capabilities.CPUFlags {
		flag, name, _ := strings.Cut(pair, ":")
		h.flags = append(h.flags, capability{flag, name})
	}
	return h, nil
}

// Name implements inspector.Hook.
func (capabilities) Name() string { return "capabilities" }

// After implements inspector.After. An inventory without a CPU is refused as the
// contract says, which calls it no defect of the original's: a ramdisk that
// found none is not to be trusted with the rest.
func (h capabilities) After(ctx context.Context, t *inspector.Task) error {
	inventory, err := inventoryOf(t.Data)
	if err != nil {
		return err
	}
	var found []capability
	if h.bootMode {
		if found, err = bootMode(inventory); err != nil {
			return err
		}
	}
	v := inventory.members.Get("cpu")
	if v == nil {
		return &document.Exception{Class: "KeyError", Text: "'cpu'"}
	}
	cpu, err := objectOf("inventory.cpu", v)
	if err != nil {
		return err
	}
	flags, err := elementsOf("inventory.cpu.flags", cpu.members.Get("flags"), maxFlags)
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(flags))
	for _, flag := range flags {
		there[flag.Text()] = true // what is no text means nothing
	}
	for _, f := range h.flags {
		if there[f.name] {
			found = append(found, capability{f.value, "true"})
		}
	}
	return addCapabilities(ctx, t, found)
}

// bootMode is how the machine booted, if the ramdisk knows.
func bootMode(inventory object) ([]capability, error) {
	const where = "inventory.boot"
	v := inventory.members.Get("boot")
	if v.Kind() == document.None {
		return nil, nil
	}
	boot, err := objectOf(where, v)
	if err != nil {
		return nil, err
	}
	mode := boot.members.Get("current_boot_mode")
	if mode.Kind() == document.None {
		return nil, nil
	}
	text, err := textOf(where+".current_boot_mode", mode)
	switch {
	case err != nil:
		return nil, err
	case strings.Contains(text, ",") || len(text) > maxText:
		// It would be read as further capabilities, of the sender's choice.
		return nil, document.Failed("%s.current_boot_mode: %s is no boot mode", where, clipped(document.ReprText(text)))
	}
	return []capability{{"boot_mode", text}}, nil
}

// addCapabilities sets capabilities of the node, regardless of overwrite_existing.
// Others stay, in their order; new ones follow.
func addCapabilities(ctx context.Context, t *inspector.Task, found []capability) error {
	if len(found) == 0 {
		return nil
	}
	written := t.Node().Properties["capabilities"]
	existing, ok := written.(string)
	if !ok && !isUnset(written) {
		return document.Failed("properties.capabilities of the node: expected text, got %s",
			clipped(python(document.Repr, written)))
	}
	return setProperty(ctx, t, "capabilities", mergedCapabilities(existing, found))
}

// mergedCapabilities changes a list as in "profile:compute,boot_mode:bios". Of a
// name that occurs twice the last value counts. What has no value is kept.
func mergedCapabilities(existing string, found []capability) string {
	var list []capability
	place := make(map[string]int)
	set := func(c capability) {
		i, known := place[c.name]
		if known {
			list[i] = c
			return
		}
		place[c.name] = len(list)
		list = append(list, c)
	}
	if existing != "" {
		for item := range strings.SplitSeq(existing, ",") {
			name, value, valued := strings.Cut(item, ":")
			if !valued {
				list = append(list, capability{name: item})
				continue
			}
			set(capability{name, ":" + value})
		}
	}
	for _, c := range found {
		set(capability{c.name, ":" + c.value})
	}
	items := make([]string, len(list))
	for i, c := range list {
		items[i] = c.name + c.value
	}
	return strings.Join(items, ",")
}
