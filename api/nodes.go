package api

import (
	"context"
	"net/http"

	"github.com/trivet-ha/trivet/inspector/accept"
	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// Names reads the names of nodes from Ironic, within seconds.
type Names interface {
	All(ctx context.Context) ([]ironic.NodeName, error)
	// Of reads one node, by UUID or name.
	Of(ctx context.Context, ref string) (ironic.NodeName, error)
}

var _ Names = (*accept.Names)(nil)

// nodeList is the answer about all nodes.
type nodeList struct {
	Nodes []ironic.NodeName `json:"nodes"`
}

// The paths of names are Trivet's own: the contract of ironic-inspector has no
// names, and its answers stay as they are.
const (
	pathNodes = "/v1/nodes"
	pathNode  = pathNodes + "/:node"
)

func (i *Inspector) nodeResources() []resource {
	if i.Names == nil {
		return nil
	}
	return []resource{
		{path: pathNodes, reader: true, cost: admission.Request, get: i.nodes},
		{path: pathNode, reader: true, cost: admission.Request, get: onNode(i.node)},
	}
}

func (i *Inspector) nodes(c echo.Context) error {
	ctx, cancel := limited(c)
	defer cancel()
	all, err := i.Names.All(ctx)
	if err != nil {
		return err
	}
	return replyValue(c, http.StatusOK, nodeList{Nodes: append([]ironic.NodeName{}, all...)})
}

func (i *Inspector) node(ctx context.Context, c echo.Context, ref string) error {
	one, err := i.Names.Of(ctx, ref)
	if err != nil {
		return err
	}
	return replyValue(c, http.StatusOK, one)
}
