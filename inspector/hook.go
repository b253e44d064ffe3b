package inspector

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// Hook is one step of processing a ramdisk's data. It also implements Before,
// After, or both. Hooks are made once and called concurrently.
type Hook interface {
	Name() string // as in inspection.processing.processing_hooks
}

// Before is run on the data alone, before `processing` is saved. All hooks run
// even when some fail; what they return is collected.
type Before interface {
	Before(ctx context.Context, data *document.Document) error
}

// After is run with the node, in the configured order; the first failure ends
// the introspection.
type After interface {
	After(ctx context.Context, t *Task) error
}

// Chooser is a hook that chooses the interfaces whose ports the node gets.
type Chooser interface {
	// Choose returns the MACs of the chosen interfaces, in lower case; none of
	// data that the hook's Before objects to. It leaves the data as it is.
	Choose(data *document.Document) (macs []string)
}

// NodeClient changes a node, and lists its ports. A node that does not exist is
// ironic.ErrNoNode; other failures are *ironic.Error, ErrOutcomeUnknown among them where the
// answer to a patch that appends to a list is lost.
type NodeClient interface {
	PatchNode(ctx context.Context, node string, patch []ironic.Patch) (ironic.Node, error)
	// PatchDriver is PatchNode for a patch that changes the driver: interfaces
	// that the new one does not have are reset to its defaults.
	PatchDriver(ctx context.Context, node string, patch []ironic.Patch) (ironic.Node, error)
	Ports(ctx context.Context, node string) ([]ironic.Port, error)
}

// PortClient writes the ports of nodes.
type PortClient interface {
	// CreatePort fails with ErrPortExists when any node has the address.
	CreatePort(ctx context.Context, p ironic.Port) (ironic.Port, error)
	PatchPort(ctx context.Context, port string, patch []ironic.Patch) error
	DeletePort(ctx context.Context, port string) error
}

// RuleClient is what rules need besides (docs/contract.md#rules).
type RuleClient interface {
	// NodeWhole returns everything that Ironic tells of a node, under Ironic's
	// names. Numbers are json.Number.
	NodeWhole(ctx context.Context, node string) (map[string]any, error)
	AddTrait(ctx context.Context, node, trait string) error
	// RemoveTrait succeeds when the node has no such trait.
	RemoveTrait(ctx context.Context, node, trait string) error
}

// Ironic is the bare-metal service as hooks and rules reach it. Every call is tried again
// as configured and asks Allowed(ctx) right before each time that it sends something. All
// methods may be called concurrently.
type Ironic interface {
	NodeClient
	PortClient
	RuleClient
}

// Task is one callback while its node is worked on. It belongs to one
// goroutine.
type Task struct {
	Data   *document.Document
	Ironic Ironic // guarded by the worker's claim
	Log    *slog.Logger

	node  ironic.Node
	read  time.Time     // when the node was asked for; zero: not known
	ports []ironic.Port // as last listed; nil: not yet
}

// NewTask returns the work on a callback of node. It logs nothing until Log is
// set.
func NewTask(data *document.Document, node ironic.Node, ironic Ironic) *Task {
	return &Task{Data: data, Ironic: ironic, Log: slog.New(slog.DiscardHandler), node: node}
}

// Node returns the node as it was last read or patched.
func (t *Task) Node() ironic.Node { return t.node }

// Refresh reads the node unless that was done within a time before.
func (t *Task) Refresh(within time.Duration, read func() (ironic.Node, error)) error {
	began := time.Now()
	if began.Sub(t.read) < within {
		return nil
	}
	node, err := read()
	if err == nil {
		t.node, t.read = node, began
	}
	return err
}

// PatchNode changes the node in Ironic.
func (t *Task) PatchNode(ctx context.Context, patch ...ironic.Patch) error {
	return t.patch(ctx, t.Ironic.PatchNode, patch)
}

// PatchDriver is PatchNode for a patch of the driver; see NodeClient.
func (t *Task) PatchDriver(ctx context.Context, patch ...ironic.Patch) error {
	return t.patch(ctx, t.Ironic.PatchDriver, patch)
}

func (t *Task) patch(ctx context.Context,
	send func(ctx context.Context, node string, patch []ironic.Patch) (ironic.Node, error), patch []ironic.Patch) error {
	began := time.Now()
	node, err := send(ctx, t.node.UUID, patch)
	if err != nil {
		return err
	}
	t.node, t.read = node, began
	return nil
}

// Ports returns the node's ports, listed once.
func (t *Task) Ports(ctx context.Context) ([]ironic.Port, error) {
	if t.ports != nil {
		return t.ports, nil
	}
	ports, err := t.Ironic.Ports(ctx, t.node.UUID)
	if err != nil {
		return nil, err
	}
	t.ports = slices.Clip(append([]ironic.Port{}, ports...))
	return t.ports, nil
}

// SetPorts notes what Ports shall return after a hook changed them; nil lists them
// again.
func (t *Task) SetPorts(ports []ironic.Port) { t.ports = ports }
