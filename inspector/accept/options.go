package accept

import (
	"context"
	"log/slog"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/inspector/relay"
)

// Taker begins callbacks where they come in.
type Taker interface {
	// Take reports false if the callback was not taken, for any reason, and is to
	// be queued; that joins it if it was taken all the same.
	Take(ctx context.Context, c inspector.Callback) (queued introspection.Queued, ok bool)
}

// Ironic is the bare-metal service as requests ask it: they read.
type Ironic interface {
	identify.Ironic
	Ports(ctx context.Context, node string) ([]ironic.Port, error)
	// PowerValid says whether Ironic could switch the node, and why not.
	PowerValid(ctx context.Context, node string) (ok bool, reason string, err error)
}

// Options are the parts of a Service.
type Options struct {
	Live     *inspector.LiveSettings
	Peer     string // this peer's name, for who looks for logs
	Log      inspector.Log
	Do       inspector.Doer
	Notifier *inspector.Notifier
	Ironic   Ironic
	Resolver identify.Resolver  // of BMC names
	Suspects inspector.Suspects // nil: they do not
	Packer   *blobs.Packer
	Taker    Taker         // nil: all callbacks go through the queue
	Relays   *relay.Intake // of callbacks that are Ironic's own; nil: none come
	Logger   *slog.Logger
}
