package accept

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/inspector/relay"
	"github.com/trivet-ha/trivet/internal/logs"
)

// answerLimit is how long a callback, or a start without managed boot, waits for its end
// (docs/design.md#callbacks). The repeat joins the first.
const answerLimit = 25 * time.Second

// Service is what the API asks: start, abort, callbacks and reports. It answers
// on any peer. All methods may be called concurrently. Errors are *Refusal with
// the contract's status and text, refusals of the state machine, and those of
// the log when there is no quorum.
type Service struct {
	o      *Options
	finder *finder
	logs   *logIntake
	// Lists is what callbacks need of Ironic's lists; its Run belongs to the peer.
	Lists *ListReader
}

// NewService returns the service.
func NewService(o Options) *Service {
	limited := logs.Limit(o.Logger) // for lines that any caller can cause
	search := identify.NewSearch(o.Ironic, o.Resolver, o.Live.BmcFields, o.Logger)
	lists := newListReader(search)
	return &Service{o: &o, finder: &finder{&o, limited, lists}, logs: &logIntake{&o, limited}, Lists: lists}
}

// resolve turns a UUID or a name into the UUID by which records are kept.
func (s *Service) resolve(ctx context.Context, ref string) (string, error) {
	if ironic.IsUUID(ref) {
		return strings.ToLower(ref), nil
	}
	node, err := readNode(ctx, s.o.Ironic, ref)
	return node.UUID, err
}

// Abort cancels the introspection of a node. A node that is worked on at this
// moment is refused with 409; one that has ended is left as it is.
func (s *Service) Abort(ctx context.Context, ref string) error {
	node, err := s.resolve(ctx, ref)
	if err != nil {
		return err
	}
	_, err = inspector.Commit(ctx, s.o.Do, introspection.Enqueue{Node: node, Event: introspection.EventAbort})
	switch {
	case errors.Is(err, fsm.NotFound):
		return notInCache(node)
	case errors.Is(err, fsm.Conflict):
		return inspector.Refuse(http.StatusConflict, "Node is locked, please, retry later")
	case errors.Is(err, fsm.IllegalTransition):
		return nil // the contract: accepted, and nothing changes
	}
	return err
}

// ended reports whether a request is out of the queue.
func ended(v fsm.View, request fencing.Token) bool {
	_, queued := v.QueuedRequest(request)
	return !queued && inspector.Covers(v, request)
}

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
