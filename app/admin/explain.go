package admin

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/inspector/identify"
)

// namedNode is a node and its name, or why the name is missing.
type namedNode struct {
	ironic.NodeName
	problem error
}

// naming asks for the name of a node while the caller does something else; the
// returned function waits for it. No node has no name.
func (h *Host) naming(ctx context.Context, node string) (wait func() namedNode) {
	n := namedNode{NodeName: ironic.NodeName{UUID: node}}
	var asking sync.WaitGroup
	if node != "" {
		asking.Go(func() {
			var found ironic.NodeName
			if found, n.problem = h.Names.Of(ctx, node); n.problem == nil {
				n.Name = found.Name
			}
		})
	}
	return func() namedNode {
		asking.Wait()
		return n
	}
}

// macsOf finds the node that a UUID or name means, and its MACs. A UUID needs no
// Ironic; a name is Ironic's.
func (h *Host) macsOf(ctx context.Context, ref string) (n namedNode, macs []string, err error) {
	if id, bad := uuid.Parse(ref); bad == nil {
		n = h.naming(ctx, id.String())()
	} else if n.NodeName, err = h.Names.Of(ctx, ref); err != nil {
		return n, nil, unnamed(err)
	}
	if macs = identify.MACsOf(h.View(), n.UUID); len(macs) == 0 {
		return n, nil, &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound,
			Message: fmt.Sprintf("no MAC of node %v is known: Ironic lists no port of it, and no introspection is under way",
				n.NodeName),
			Hint: "name the machine by its MAC"}
	}
	return n, macs, nil
}

// unnamed says what to do where a name was not found out. That Ironic is away is
// no want of a leader, as which operators' tools would take the status alone.
func unnamed(err error) error {
	e := *api.Refusal(err)
	if e.Status == http.StatusServiceUnavailable {
		e.Code = api.CodeFailed
	}
	e.Hint = "name the machine by the UUID of its node, or by its MAC"
	return &e
}

// withNode writes the node into explanations.
func withNode(rows []api.Explanation, n namedNode) []api.Explanation {
	for i := range rows {
		rows[i].Node, rows[i].NodeName = n.UUID, n.Name
		if n.problem != nil {
			rows[i].NodeProblem = n.problem.Error()
		}
	}
	return rows
}
