package hooks

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
)

// scheduler sets the properties by which a scheduler chooses nodes.
type scheduler struct {
	overwrite bool // also those that are set already
}

var _ inspector.After = scheduler{}

// configured implements configurable.
func (scheduler) configured(conf config.Inspection) (inspector.Hook, error) {
	return scheduler{overwrite: conf.Processing.OverwriteExisting}, nil
}

// Name implements inspector.Hook.
func (scheduler) Name() string { return "scheduler" }

// After implements inspector.After. What the inventory lacks, or has in a shape
// that says nothing, is left out, as the contract wants it: such a node can
// still be scheduled by what an operator wrote.
func (s scheduler) After(ctx context.Context, t *inspector.Task) error {
	inventory, err := inventoryOf(t.Data)
	if err != nil {
		return err
	}
	var patch []ironic.Patch
	for _, p := range schedulerProperties(inventory) {
		if err := t.Data.Set(p.key, p.value); err != nil {
			return err
		}
		if p.value == int64(0) || !s.overwrite && !isUnset(t.Node().Properties[p.key]) {
			continue
		}
		patch = append(patch, ironic.Patch{Op: "add", Path: "/properties/" + p.key, Value: fmt.Sprint(p.value)})
	}
	if len(patch) == 0 {
		return nil
	}
	if err := t.PatchNode(ctx, patch...); err != nil {
		return fmt.Errorf("set properties of node %s: %w", t.Node().UUID, err)
	}
	return nil
}

// property is one of a node's properties: an int64 or a string.
type property struct {
	key   string
	value any
}

// schedulerProperties reads what there is, in the order of the patch.
func schedulerProperties(inventory object) []property {
	var out []property
	if cpu, err := objectOf("inventory.cpu", inventory.members.Get("cpu")); err == nil {
		if count, ok := wholeNumber(cpu.members.Get("count")); ok {
			out = append(out, property{"cpus", count})
		}
		// Without a count the architecture is not read either, as in the original.
		if arch, err := cpu.text("architecture"); err == nil && arch != "" && len(out) > 0 {
			out = append(out, property{"cpu_arch", arch})
		}
	}
	if memory, err := objectOf("inventory.memory", inventory.members.Get("memory")); err == nil {
		if size, ok := wholeNumber(memory.members.Get("physical_mb")); ok {
			out = append(out, property{"memory_mb", size})
		}
	}
	return out
}

// wholeNumber reads a count: a number that is not negative, its fraction cut
// off, or the digits of one as text.
func wholeNumber(v *document.Value) (int64, bool) {
	switch v.Kind() {
	case document.Text:
		n, err := strconv.ParseInt(strings.TrimSpace(v.Text()), 10, 64)
		return n, err == nil && n >= 0
	case document.Int, document.Float:
		if n, err := strconv.ParseInt(string(v.Raw()), 10, 64); err == nil {
			return n, n >= 0
		}
		f, err := strconv.ParseFloat(string(v.Raw()), 64)
		if err != nil || f < 0 || f > math.MaxInt32 {
			return 0, false
		}
		return int64(f), true
	default:
		return 0, false
	}
}

// isUnset reports whether a property counts as not set: it is missing, null,
// empty, false or zero.
func isUnset(value any) bool {
	switch v := value.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	default:
		return v == nil || v == "" || v == false || v == float64(0)
	}
}
