package work

import (
	"context"
	"log/slog"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// Memory is what a host remembers of documents.
type Memory interface {
	inspector.Suspects
	// At notes which hook looks at a document that is being examined.
	At(document blobs.Hash, hook string)
	// Suspect reports whether a document is a suspect, and at which hook the
	// process ended, "" if it had come to none.
	Suspect(document blobs.Hash) (hook string, yes bool)
}

// Notes outlive this process: the next one tells the others what a request was
// at when its worker was lost. Its methods are called concurrently.
type Notes interface {
	Note(request fencing.Token, hook string) error
	Forget(request fencing.Token)
}

// Rules are what operators want done at the end of every introspection
// (docs/contract.md#rules). Its method may be called concurrently.
type Rules interface {
	// Apply runs the rules in v on a processed document. A *Problem is answered
	// 400, any other error 500; either ends the introspection.
	Apply(ctx context.Context, v fsm.View, t *inspector.Task) error
}

// Session is this peer's presence in the log, inside which its workers hold
// their claims.
type Session interface {
	ID() fencing.Token // zero: none
	// Deadline is until when an outside effect may rely on the session.
	Deadline() time.Time
	// DoIn commits a command exactly once in the given session, however long
	// there is no leader; it fails when the session is over.
	DoIn(ctx context.Context, session fencing.Token, c fsm.Command) (fsm.Result, error)
}

// HookLimit is how long one hook may take, with all its calls of Ironic.
const HookLimit = 5 * time.Minute

// Machines switches machines, and makes nodes of those that are discovered.
type Machines interface {
	// CreateNode fails with ErrNodeExists when there is a node with this UUID.
	CreateNode(ctx context.Context, n ironic.NewNode) (ironic.Node, error)
	SetBootDevice(ctx context.Context, node, device string, persistent bool) error
	SetPower(ctx context.Context, node, target string) error
}

// Ironic is the bare-metal service as workers use it.
type Ironic interface {
	inspector.Ironic // for hooks and rules
	identify.Ironic
	Machines
}

// Options are the parts of a Pool.
type Options struct {
	Live     *inspector.LiveSettings
	Peer     string // this peer's name, for texts
	Log      inspector.Log
	Session  Session
	Notifier *inspector.Notifier
	Ironic   Ironic
	// Resolver of BMC names, for machines that are discovered.
	Resolver identify.Resolver
	Health   *ironic.Health
	Rules    Rules // nil: none
	Packer   *blobs.Packer
	Notes    Notes
	// Memory lets callbacks be taken where they come in; nil: none is.
	Memory Memory
	// HookLimit bounds one hook; HookLimit unless a test says otherwise.
	HookLimit time.Duration
	Logger    *slog.Logger
}
