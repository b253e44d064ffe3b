package inspector

import (
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// startable are the provision states in which a node may be introspected
// (docs/contract.md#starting), in the order the original prints them.
var startable = [...]string{"manageable", "enroll", "inspect wait", "inspecting", "inspect failed"}

// CheckProvision refuses a node that may soon carry a workload, and one that
// carries it unless that is permitted. The text names the same states either way,
// as the original's does.
func CheckProvision(n ironic.Node, permitActive bool) error {
	if slices.Contains(startable[:], strings.ToLower(n.Provision)) || permitActive && n.Deployed() {
		return nil
	}
	return document.Failed("Invalid provision state for introspection: \"%s\", valid states are \"['%s']\"",
		n.Provision, strings.Join(startable[:], "', '"))
}
