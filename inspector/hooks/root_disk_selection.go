package hooks

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
)

// rootDiskSelection finds the disk to install on and tells Ironic its size.
type rootDiskSelection struct {
	overwrite bool // also a local_gb that is set already
	spacing   bool // leave a GiB of it for partitions
}

var _ inspector.After = rootDiskSelection{}

// configured implements configurable.
func (rootDiskSelection) configured(conf config.Inspection) (inspector.Hook, error) {
	return rootDiskSelection{overwrite: conf.Processing.OverwriteExisting,
		spacing: conf.Processing.DiskPartitioningSpacing}, nil
}

// Name implements inspector.Hook.
func (rootDiskSelection) Name() string { return "root_disk_selection" }

// After implements inspector.After. It sets root_disk, if the node has hints,
// and local_gb.
func (h rootDiskSelection) After(ctx context.Context, t *inspector.Task) error {
	inventory, err := inventoryOf(t.Data)
	if err != nil {
		return err
	}
	if written := t.Node().Properties["root_device"]; !isUnset(written) {
		if err := chooseDisk(t, inventory, written); err != nil {
			return err
		}
	}
	size, err := h.localGB(t)
	if err != nil {
		return err
	}
	if err := t.Data.Set("local_gb", size); err != nil {
		return err
	}
	if !h.overwrite && !isUnset(t.Node().Properties["local_gb"]) {
		return nil
	}
	return setProperty(ctx, t, "local_gb", strconv.FormatInt(size, 10))
}

// localGB is the size of the root disk in GiB, less what partitions need; 0 for
// a machine without disks, and for a disk of less than one.
func (h rootDiskSelection) localGB(t *inspector.Task) (int64, error) {
	const where = "root_disk"
	v := t.Data.Value(where)
	if v.Empty() {
		t.Log.Info("machine has no root disk", "node", t.Node().UUID)
		return 0, nil
	}
	disk, err := objectOf(where, v)
	if err != nil {
		return 0, err
	}
	size, err := byteSize(where+".size", disk.members.Get("size"))
	if err != nil {
		return 0, err
	}
	size /= gibibyte
	if size > 0 && h.spacing {
		size--
	}
	return size, nil
}

// byteSize reads a size in bytes.
func byteSize(where string, v *document.Value) (int64, error) {
	raw := string(v.Raw())
	if k := v.Kind(); k != document.Int && k != document.Float {
		return 0, document.Failed("%s: expected a number, got %s", where, k.InWords())
	}
	size, err := strconv.ParseInt(raw, 10, 64)
	if err != nil {
		f, failed := strconv.ParseFloat(raw, 64)
		if failed != nil || f >= math.MaxInt64 {
			return 0, document.Failed("%s: %s is more than a disk has", where, clipped(raw))
		}
		size = int64(f)
	}
	if size < 0 {
		return 0, document.Failed("%s: %s is less than nothing", where, clipped(raw))
	}
	return size, nil
}

// chooseDisk makes the first disk that fits the node's hints the root disk.
// Disks that the node's owner wants left alone are taken out of the inventory
// before, as the contract wants it: only when there are hints.
func chooseDisk(t *inspector.Task, inventory object, written any) error {
	disks, err := inventory.objects("disks", maxDisks)
	if err != nil {
		return err
	}
	if skip := t.Node().Properties["skip_block_devices"]; !isUnset(skip) {
		if disks, err = withoutSkipped(disks, skip); err != nil {
			return err
		}
		left := &document.Parts{}
		for _, disk := range disks {
			left.Values = append(left.Values, disk.value)
		}
		if err := t.Data.Set(inventory.where, inventory.with("disks", left.JSON()).value.Raw()); err != nil {
			return err
		}
	}
	var disk object
	var found bool
	wanted, err := hintsOf(written)
	if err == nil {
		disk, found, err = wanted.first(disks)
	}
	switch {
	case err != nil:
		return document.Failed(
			"No disks could be found using the root device hints %s because they failed to validate. Error: %v",
			clipped(python(document.Repr, written)), err)
	case !found:
		return document.Failed("No disks satisfied root device hints")
	}
	return t.Data.Set("root_disk", disk.value.Raw())
}

// withoutSkipped returns the disks that fit none of several hints. Disks that
// share the name of one that does go with it: a name is all that others know a
// disk by.
func withoutSkipped(disks []object, written any) ([]object, error) {
	list, ok := written.([]any)
	if !ok || len(list) > maxSkipHints {
		return nil, document.Failed("properties.skip_block_devices of the node: expected a list of at most %d hints",
			maxSkipHints)
	}
	skipped := make(map[string]bool)
	for _, one := range list {
		unwanted, err := hintsOf(one)
		for i := 0; i < len(disks) && err == nil; i++ {
			var fits bool
			if fits, err = unwanted.fit(disks[i]); fits {
				skipped[nameOf(disks[i])] = true
			}
		}
		if err != nil {
			return nil, document.Failed(
				"No disks could be skipped using the hints %s because they failed to validate. Error: %v",
				clipped(python(document.Repr, one)), err)
		}
	}
	return slices.DeleteFunc(slices.Clone(disks), func(disk object) bool { return skipped[nameOf(disk)] }), nil
}

// nameOf is what a disk is told from others by: its place, if it has no name.
func nameOf(disk object) string {
	if name := disk.members.Get("name"); !name.Empty() {
		return string(name.Raw())
	}
	return disk.where
}

// setProperty sets one property of the node in Ironic.
func setProperty(ctx context.Context, t *inspector.Task, name string, value any) error {
	if err := t.PatchNode(ctx, ironic.Patch{Op: "add", Path: "/properties/" + name, Value: value}); err != nil {
		return fmt.Errorf("set %s of node %s: %w", name, t.Node().UUID, err)
	}
	return nil
}
