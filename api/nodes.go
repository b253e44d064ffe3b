package api

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/accept"
	"github.com/trivet-ha/trivet/inspector/hardware"
	"github.com/trivet-ha/trivet/inspector/ironic"
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

// Hardware reads what a node's ramdisk sent as hardware. ref is a UUID or name.
type Hardware interface {
	Changes(ctx context.Context, ref string, r inspector.Reading) (accept.Comparison, error)
	Cabling(ctx context.Context, ref string, r inspector.Reading) ([]hardware.Cable, error)
}

var _ Hardware = (*accept.Service)(nil)

// nodeChanges is the answer about what changed.
type nodeChanges struct {
	Compared bool         `json:"compared"` // false: one inspection alone is stored
	Changes  []nodeChange `json:"changes"`
}

type nodeChange struct {
	hardware.Change
	Text string `json:"text"` // the change in a sentence
}

type nodeCabling struct {
	Cables []hardware.Cable `json:"cables"`
}

// hardwareAPI answers the paths about the hardware of nodes, which are Trivet's own.
type hardwareAPI struct {
	hardware Hardware
	reading  func(echo.Context) inspector.Reading // how fresh an answer must be
}

func (a hardwareAPI) resources() []resource {
	if a.hardware == nil {
		return nil
	}
	return []resource{
		{path: pathNode + "/changes", reader: true, cost: admission.Dear, get: onNode(a.changes)},
		{path: pathNode + "/cabling", reader: true, cost: admission.Dear, get: onNode(a.cabling)},
	}
}

func (a hardwareAPI) changes(ctx context.Context, c echo.Context, ref string) error {
	found, err := a.hardware.Changes(ctx, ref, a.reading(c))
	if err != nil {
		return err
	}
	answer := nodeChanges{Compared: found.Compared, Changes: []nodeChange{}}
	for _, change := range found.Changes {
		answer.Changes = append(answer.Changes, nodeChange{change, change.String()})
	}
	return replyValue(c, http.StatusOK, answer)
}

func (a hardwareAPI) cabling(ctx context.Context, c echo.Context, ref string) error {
	cables, err := a.hardware.Cabling(ctx, ref, a.reading(c))
	if err != nil {
		return err
	}
	return replyValue(c, http.StatusOK, nodeCabling{append([]hardware.Cable{}, cables...)})
}
