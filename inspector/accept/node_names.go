package accept

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// Bounds of asking Ironic for names. A person waits for the answer.
const (
	namesLimit = 5 * time.Second  // the whole list
	nameLimit  = 2 * time.Second  // one node
	namesAge   = 15 * time.Second // how long a list is served again
)

// NameClient reads the names of nodes from Ironic.
type NameClient interface {
	// NodeNames lists all nodes: all pages, or an error.
	NodeNames(ctx context.Context) ([]ironic.NodeName, error)
	// Node reads one, by UUID or name; ErrNoNode if there is none.
	Node(ctx context.Context, ref string) (ironic.Node, error)
}

// Names tells people the names of nodes. Names are Ironic's: the log does not
// hold them, because a renamed node would cost an entry and nothing is decided
// by names. All methods may be called concurrently.
type Names struct {
	ironic NameClient
	now    func() time.Time
	turn   chan struct{} // holds one token; its holder owns list and listed
	list   []ironic.NodeName
	listed time.Time
}

// NewNames returns names as Ironic has them.
func NewNames(ironic NameClient, now func() time.Time) *Names {
	n := &Names{ironic: ironic, now: now, turn: make(chan struct{}, 1)}
	n.turn <- struct{}{}
	return n
}

// All lists the nodes in Ironic. One caller at a time asks Ironic; the answer is
// served to others for 15 s. The result is shared and must not be changed.
// Where Ironic does not answer within 5 s the error is a *Refusal.
func (n *Names) All(ctx context.Context) ([]ironic.NodeName, error) {
	ctx, cancel := context.WithTimeout(ctx, namesLimit)
	defer cancel()
	select {
	case <-n.turn:
	case <-ctx.Done():
		return nil, noNames(ctx.Err())
	}
	defer func() { n.turn <- struct{}{} }()
	if n.listed.IsZero() || n.now().Sub(n.listed) > namesAge {
		list, err := n.ironic.NodeNames(ctx)
		if err != nil {
			return nil, noNames(err)
		}
		n.list, n.listed = list, n.now()
	}
	return n.list, nil
}

// Of reads one node, by UUID or name. A node that Ironic does not have, and an
// Ironic that does not answer within 2 s, are a *Refusal.
func (n *Names) Of(ctx context.Context, ref string) (ironic.NodeName, error) {
	ctx, cancel := context.WithTimeout(ctx, nameLimit)
	defer cancel()
	found, err := n.ironic.Node(ctx, ref)
	switch {
	case errors.Is(err, ironic.ErrNoNode):
		return ironic.NodeName{}, notFoundInIronic(ref)
	case err != nil:
		return ironic.NodeName{}, noNames(err)
	}
	return ironic.NodeName{UUID: strings.ToLower(found.UUID), Name: found.Name}, nil
}

// noNames is answered with 503: another peer may reach Ironic.
func noNames(err error) error {
	return inspector.Refuse(http.StatusServiceUnavailable, "Ironic did not tell the names of nodes: %s",
		inspector.Clip(err.Error()))
}
