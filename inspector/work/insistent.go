package work

import (
	"context"

	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// insistent is Ironic as hooks and rules reach it. A call that did not reach Ironic waits until
// it is back, as the steps between hooks do, and is sent again if no other user has the node by
// now. What may show if it is sent twice is ironic.ErrOutcomeUnknown, which ends the hook.
type insistent struct {
	inspector.Ironic
	*effects
	task *inspector.Task
}

func (i insistent) insist(ctx context.Context, do func() error) error {
	again := false
	return i.effects.insist(ctx, func() error {
		if again {
			if err := i.fit(ctx, i.task); err != nil {
				return err
			}
		}
		again = true
		return do()
	})
}

// answer insists on a call that returns something.
func answer[T any](ctx context.Context, i insistent, call func() (T, error)) (got T, err error) {
	err = i.insist(ctx, func() (err error) {
		got, err = call()
		return err
	})
	return got, err
}

// PatchNode implements inspector.NodeClient.
func (i insistent) PatchNode(ctx context.Context, node string, patch []ironic.Patch) (ironic.Node, error) {
	return answer(ctx, i, func() (ironic.Node, error) { return i.Ironic.PatchNode(ctx, node, patch) })
}

// PatchDriver implements inspector.NodeClient.
func (i insistent) PatchDriver(ctx context.Context, node string, patch []ironic.Patch) (ironic.Node, error) {
	return answer(ctx, i, func() (ironic.Node, error) { return i.Ironic.PatchDriver(ctx, node, patch) })
}

// Ports implements inspector.NodeClient.
func (i insistent) Ports(ctx context.Context, node string) ([]ironic.Port, error) {
	return answer(ctx, i, func() ([]ironic.Port, error) { return i.Ironic.Ports(ctx, node) })
}

// CreatePort implements inspector.PortClient.
func (i insistent) CreatePort(ctx context.Context, p ironic.Port) (ironic.Port, error) {
	return answer(ctx, i, func() (ironic.Port, error) { return i.Ironic.CreatePort(ctx, p) })
}

// PatchPort implements inspector.PortClient.
func (i insistent) PatchPort(ctx context.Context, port string, patch []ironic.Patch) error {
	return i.insist(ctx, func() error { return i.Ironic.PatchPort(ctx, port, patch) })
}

// DeletePort implements inspector.PortClient.
func (i insistent) DeletePort(ctx context.Context, port string) error {
	return i.insist(ctx, func() error { return i.Ironic.DeletePort(ctx, port) })
}

// NodeWhole implements inspector.RuleClient.
func (i insistent) NodeWhole(ctx context.Context, node string) (map[string]any, error) {
	return answer(ctx, i, func() (map[string]any, error) { return i.Ironic.NodeWhole(ctx, node) })
}

// AddTrait implements inspector.RuleClient.
func (i insistent) AddTrait(ctx context.Context, node, trait string) error {
	return i.insist(ctx, func() error { return i.Ironic.AddTrait(ctx, node, trait) })
}

// RemoveTrait implements inspector.RuleClient.
func (i insistent) RemoveTrait(ctx context.Context, node, trait string) error {
	return i.insist(ctx, func() error { return i.Ironic.RemoveTrait(ctx, node, trait) })
}
