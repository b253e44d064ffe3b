package hooks

import (
	"context"

	"github.com/trivet-ha/trivet/inspector"
)

// example is the least that a hook can be, for those who write one: it says in
// the log that it was run, and changes nothing.
type example struct{}

var _ inspector.After = example{}

// Name implements inspector.Hook.
func (example) Name() string { return "example" }

// After implements inspector.After.
func (example) After(_ context.Context, t *inspector.Task) error {
	t.Log.Debug("example hook ran", "node", t.Node().UUID, "provision_state", t.Node().Provision)
	return nil
}
