package accept

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

func notFoundInIronic(ref string) error {
	return inspector.Refuse(http.StatusNotFound, "Node %s was not found in Ironic", ref)
}

func notInCache(node string) error {
	return inspector.Refuse(http.StatusNotFound, "Could not find node %s in cache", node)
}

// admits refuses what the workers of a peer that is yet to be upgraded would claim
// and not do. A client that repeats the request later finds the peer upgraded.
func admits(log inspector.Log, e introspection.Event) error {
	if err := log.View().AdmitsEvent(e); err != nil {
		return inspector.Refuse(http.StatusServiceUnavailable, "%v", err)
	}
	return nil
}

// readNode reads a node from Ironic for the API.
func readNode(ctx context.Context, from Ironic, ref string) (ironic.Node, error) {
	if _, err := uuid.Parse(ref); err == nil && !ironic.IsUUID(ref) {
		return ironic.Node{}, notFoundInIronic(ref) // it looks like a UUID and is no node's name
	}
	node, err := from.Node(ctx, ref)
	if errors.Is(err, ironic.ErrNoNode) {
		return ironic.Node{}, notFoundInIronic(ref)
	}
	node.UUID = strings.ToLower(node.UUID) // as records are kept, however it was created
	return node, ironicRefusal(err)
}

// ironicRefusal makes an answer of what Ironic said: never a 4xx, which a
// client would take for its own mistake.
func ironicRefusal(err error) error {
	var e *ironic.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, identify.ErrUnresolved):
		return inspector.Refuse(http.StatusServiceUnavailable, "%v", err)
	case ironic.Unjudged(err):
		return inspector.Refuse(http.StatusServiceUnavailable, "Ironic cannot be reached: %v", err)
	case errors.As(err, &e):
		return inspector.Refuse(http.StatusInternalServerError, "Ironic answered %d: %v", e.Status, err)
	default:
		return err
	}
}

// illegal gives a refused transition its place in the contract.
func illegal(err error) error {
	if refused, ok := errors.AsType[*fsm.Error](err); ok && refused.Code == fsm.IllegalTransition {
		return inspector.Refuse(http.StatusBadRequest, "%s", refused.Message)
	}
	return err
}
