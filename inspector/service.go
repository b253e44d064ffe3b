package inspector

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/internal/logs"
)

// Limits of what one API request may wait for.
const (
	// readLimit bounds a linearizable read, with the wait for a leader.
	readLimit = 7 * time.Second
	// answerLimit is how long a callback, or a start without managed boot,
	// waits for its end (docs/design.md#callbacks). The repeat joins the first.
	answerLimit = 25 * time.Second
)

// ServiceOptions are the parts of a Service.
type ServiceOptions struct {
	Live     *LiveSettings
	Peer     string // this peer's name, for who looks for logs
	Log      Log
	Do       Doer
	Notifier *Notifier
	Ironic   Ironic
	Resolver identify.Resolver // of BMC names
	Suspects Suspects          // nil: they do not
	Packer   *blobs.Packer
	Taker    Taker // nil: all callbacks go through the queue
	Logger   *slog.Logger

	Inband InbandAPI // where callbacks go that are Ironic's own
}

// Service is what the API asks: start, abort, callbacks and reports. It answers
// on any peer. All methods may be called concurrently. Errors are *Refusal with
// the contract's status and text, refusals of the state machine, and those of
// the log when there is no quorum.
type Service struct {
	o      *ServiceOptions
	finder *finder
	logs   *logIntake
	relays *relayIntake
}

// NewService returns the service.
func NewService(o ServiceOptions) *Service {
	limited := logs.Limit(o.Logger) // for lines that any caller can cause
	search := newSearch(o.Ironic, o.Resolver, o.Live.bmcFields, o.Logger)
	return &Service{o: &o, finder: &finder{&o, limited, search}, logs: &logIntake{&o, limited}, relays: &relayIntake{&o, limited}}
}

// isID reports whether a reference has the form of a UUID as Ironic writes it.
// The original looks such a reference up by nothing else.
func isID(ref string) bool {
	_, err := uuid.Parse(ref)
	return err == nil && len(ref) == len(uuid.UUID{}.String())
}

// resolve turns a UUID or a name into the UUID by which records are kept.
func (s *Service) resolve(ctx context.Context, ref string) (string, error) {
	if isID(ref) {
		return strings.ToLower(ref), nil
	}
	node, err := readNode(ctx, s.o.Ironic, ref)
	return node.UUID, err
}

// readNode reads a node from Ironic for the API.
func readNode(ctx context.Context, ironic Ironic, ref string) (Node, error) {
	if _, err := uuid.Parse(ref); err == nil && !isID(ref) {
		return Node{}, notFoundInIronic(ref) // it looks like a UUID and is no node's name
	}
	node, err := ironic.Node(ctx, ref)
	if errors.Is(err, ErrNoNode) {
		return Node{}, notFoundInIronic(ref)
	}
	node.UUID = strings.ToLower(node.UUID) // as records are kept, however it was created
	return node, ironicRefusal(err)
}

// ironicRefusal makes an answer of what Ironic said: never a 4xx, which a
// client would take for its own mistake.
func ironicRefusal(err error) error {
	var e *IronicError
	switch {
	case err == nil:
		return nil
	case Unreachable(err):
		return refuse(http.StatusServiceUnavailable, "Ironic cannot be reached: %v", err)
	case errors.As(err, &e):
		return refuse(http.StatusInternalServerError, "Ironic answered %d: %v", e.Status, err)
	default:
		return err
	}
}

// Abort cancels the introspection of a node. A node that is worked on at this
// moment is refused with 409; one that has ended is left as it is.
func (s *Service) Abort(ctx context.Context, ref string) error {
	node, err := s.resolve(ctx, ref)
	if err != nil {
		return err
	}
	res, err := s.o.Do.Do(ctx, "", introspection.Enqueue{Node: node, Event: introspection.EventAbort})
	if err != nil {
		return err
	}
	switch res.Code {
	case fsm.NotFound:
		return notInCache(node)
	case fsm.Conflict:
		return refuse(http.StatusConflict, "Node is locked, please, retry later")
	case fsm.IllegalTransition:
		return nil // the contract: accepted, and nothing changes
	default:
		return res.Err()
	}
}
