package inspector

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/inspector/document"
)

// Hook is one step of processing a ramdisk's data. It also implements Before,
// After, or both. Hooks are made once and called concurrently.
type Hook interface {
	Name() string // as in inspection.processing.processing_hooks
}

// Notes outlive this process: the next one tells the others what a request was
// at when its worker was lost. Its methods are called concurrently.
type Notes interface {
	Note(request fencing.Token, hook string) error
	Forget(request fencing.Token)
}

// Before is run on the data alone, before `processing` is saved. All hooks run
// even when some fail; what they return is collected.
type Before interface {
	Before(ctx context.Context, data *Document) error
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
	Choose(data *Document) (macs []string)
}

// Rules are what operators want done at the end of every introspection
// (docs/contract.md#rules). Its method may be called concurrently.
type Rules interface {
	// Apply runs the rules in v on a processed document. A *Problem is answered
	// 400, any other error 500; either ends the introspection.
	Apply(ctx context.Context, v fsm.View, t *Task) error
}

// What hooks are given and answer with stands below this package, for package
// document fails in the same ways.
type (
	// Document is a ramdisk's data.
	Document = document.Document
	// Problem is a failure that is the data's or the node's own: the callback is
	// answered 400 with the text as it is. Any other error of a hook is unexpected
	// and answered 500.
	Problem = document.Problem
	// Exception is an unexpected failure of which the contract has the name: it is
	// answered 500 with both.
	Exception = document.Exception
)

// Failed makes a Problem.
func Failed(format string, args ...any) error { return document.Failed(format, args...) }

func asProblem(err error) (*Problem, bool) {
	var p *Problem
	return p, errors.As(err, &p)
}

// Task is one callback while its node is worked on. It belongs to one
// goroutine.
type Task struct {
	Data   *Document
	Ironic Ironic // guarded by the worker's claim
	Log    *slog.Logger

	node  Node
	read  time.Time // when the node was asked for; zero: not known
	ports []Port    // as last listed; nil: not yet
}

// NewTask returns the work on a callback of node. It logs nothing until Log is
// set.
func NewTask(data *Document, node Node, ironic Ironic) *Task {
	return &Task{Data: data, Ironic: ironic, Log: slog.New(slog.DiscardHandler), node: node}
}

// Node returns the node as it was last read or patched.
func (t *Task) Node() Node { return t.node }

// Deployed reports whether the node carries a workload: it is never switched off,
// and its ports are never deleted.
func (t *Task) Deployed() bool { return deployed(t.node) }

func deployed(n Node) bool {
	return strings.EqualFold(n.Provision, stateActive) || strings.EqualFold(n.Provision, stateRescue)
}

// PatchNode changes the node in Ironic.
func (t *Task) PatchNode(ctx context.Context, patch ...Patch) error {
	return t.patch(ctx, t.Ironic.PatchNode, patch)
}

// PatchDriver is PatchNode for a patch of the driver; see RuleClient.
func (t *Task) PatchDriver(ctx context.Context, patch ...Patch) error {
	return t.patch(ctx, t.Ironic.PatchDriver, patch)
}

func (t *Task) patch(ctx context.Context, send func(ctx context.Context, node string, patch []Patch) (Node, error), patch []Patch) error {
	began := time.Now()
	node, err := send(ctx, t.node.UUID, patch)
	if err != nil {
		return err
	}
	t.node, t.read = node, began
	return nil
}

// Ports returns the node's ports, listed once.
func (t *Task) Ports(ctx context.Context) ([]Port, error) {
	if t.ports != nil {
		return t.ports, nil
	}
	ports, err := t.Ironic.Ports(ctx, t.node.UUID)
	if err != nil {
		return nil, err
	}
	t.ports = slices.Clip(append([]Port{}, ports...))
	return t.ports, nil
}

// SetPorts notes what Ports shall return after a hook changed them; nil lists them
// again.
func (t *Task) SetPorts(ports []Port) { t.ports = ports }
