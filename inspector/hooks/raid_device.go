package hooks

import (
	"context"
	"fmt"
	"slices"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
)

// raidDevice learns in two runs, one before and one after a RAID volume is made,
// which disk is the volume. What it saw the first time it keeps in the node's
// extra.block_devices.
type raidDevice struct{}

var (
	_ inspector.Before = raidDevice{}
	_ inspector.After  = raidDevice{}
)

// Name implements inspector.Hook.
func (raidDevice) Name() string { return "raid_device" }

// Before implements inspector.Before: a machine without volumes has a size all
// the same.
func (raidDevice) Before(_ context.Context, d *document.Document) error {
	if !d.Value("local_gb").Empty() {
		return nil
	}
	return d.Set("local_gb", 1)
}

// After implements inspector.After.
func (raidDevice) After(ctx context.Context, t *inspector.Task) error {
	now, err := serialsOf(t.Data)
	if err != nil || len(now) == 0 {
		return err
	}
	node := t.Node()
	if _, known := node.Properties["root_device"]; known {
		return nil
	}
	kept, seen := node.Extra["block_devices"]
	if !seen {
		return patchRAID(ctx, t, ironic.Patch{Op: "add", Path: "/extra/block_devices", Value: map[string]any{"serials": now}})
	}
	fields, _ := kept.(map[string]any) // what the first run left
	list, ok := fields["serials"].([]any)
	if !ok {
		return document.Failed(
			"extra.block_devices of the node: expected an object with serials, got %s; remove it to begin again",
			clipped(python(document.Repr, kept)))
	}
	before := make(map[string]bool, len(list))
	for _, serial := range list {
		before[python(document.Str, serial)] = true
	}
	added := slices.DeleteFunc(now, func(serial string) bool { return before[serial] })
	if len(added) != 1 {
		t.Log.Warn("find root device failed: expected exactly one new disk", "node", node.UUID, "count", len(added))
		return nil
	}
	return patchRAID(ctx, t, ironic.Patch{Op: "remove", Path: "/extra/block_devices"},
		ironic.Patch{Op: "add", Path: "/properties/root_device", Value: map[string]any{"serial": added[0]}})
}

func patchRAID(ctx context.Context, t *inspector.Task, patch ...ironic.Patch) error {
	if err := t.PatchNode(ctx, patch...); err != nil {
		return fmt.Errorf("keep block devices of node %s: %w", t.Node().UUID, err)
	}
	return nil
}

// serialsOf returns the serial numbers of the disks that have one. Ramdisks
// without an inventory had a list of them.
func serialsOf(d *document.Document) (serials []string, err error) {
	v := d.Value("inventory")
	if v == nil {
		return oldSerials(d)
	}
	members, err := v.Members()
	if err != nil {
		return nil, document.Failed("inventory: %v", err)
	}
	disks, err := objectsOf("inventory.disks", members.Get("disks"), maxDisks)
	if err != nil {
		return nil, err
	}
	for _, disk := range disks {
		serial, err := disk.text("serial")
		if err != nil {
			return nil, err
		}
		if serial != "" {
			serials = append(serials, serial)
		}
	}
	return serials, nil
}

func oldSerials(d *document.Document) (serials []string, err error) {
	const where = "block_devices"
	v := d.Value(where)
	if v.Kind() == document.None {
		return nil, nil
	}
	devices, err := objectOf(where, v)
	if err != nil {
		return nil, err
	}
	elements, err := elementsOf(where+".serials", devices.members.Get("serials"), maxDisks)
	if err != nil {
		return nil, err
	}
	for i, element := range elements {
		serial, err := textOf(fmt.Sprintf("%s.serials[%d]", where, i), element)
		if err != nil {
			return nil, err
		}
		serials = append(serials, serial)
	}
	return serials, nil
}
