package ironic

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

var (
	errNoPort   = errors.New("no such port in Ironic")
	errDeployed = errors.New("the state of the node forbids it")
)

// Ports implements inspector.PortClient.
func (c *Client) Ports(ctx context.Context, node string) ([]Port, error) {
	return c.now.Load().portsOf(ctx, node, "ports/detail?node=")
}

// BootFirst returns the ports with those first that may boot by PXE, else in their order: of a
// node with hundreds of ports only so many are kept.
func BootFirst(ports []Port) []Port {
	may := func(p Port) int {
		if p.PXEEnabled {
			return 0
		}
		return 1
	}
	return slices.SortedStableFunc(slices.Values(ports), func(a, b Port) int { return cmp.Compare(may(a), may(b)) })
}

// portsOf lists the ports of one node, by a path that its UUID completes. A port that Ironic
// says to be another node's is none of them.
func (l *line) portsOf(ctx context.Context, node, path string) ([]Port, error) {
	ports, err := l.listPorts(ctx,
		call{method: http.MethodGet, path: path + url.QueryEscape(node), node: node, limit: maxPage,
			meanings: []meaning{{http.StatusNotFound, "Node ", ErrNoNode}}})
	return slices.DeleteFunc(ports, func(p Port) bool { return canonical(p.Node) != canonical(node) }), err
}

// AllPorts implements identify.Ironic.
func (c *Client) AllPorts(ctx context.Context) ([]Port, error) {
	ports, err := c.now.Load().listPorts(ctx,
		call{method: http.MethodGet, path: "ports?fields=uuid,address,node_uuid", limit: maxPage})
	for i := range ports {
		ports[i].Node = canonical(ports[i].Node)
	}
	return ports, err
}

// PortsAt lists the ports with a MAC: none or one. They are one page: where Ironic has a link
// to a next one, with a limit of one, that is the same again.
func (c *Client) PortsAt(ctx context.Context, mac string) ([]Port, error) {
	k := call{method: http.MethodGet,
		path: "ports?address=" + url.QueryEscape(strings.ToLower(mac)) + "&fields=uuid,address,node_uuid", limit: maxPage}
	raw, err := c.now.Load().do(ctx, k)
	if err != nil {
		return nil, err
	}
	ports, _, err := portsIn(k, raw)
	return ports, err
}

func (l *line) listPorts(ctx context.Context, k call) ([]Port, error) {
	return pages(ctx, l, k, func(raw []byte) ([]Port, string, error) { return portsIn(k, raw) })
}

// portsIn reads a page of ports and its link to the next one.
func portsIn(k call, raw []byte) (ports []Port, next string, err error) {
	var page struct {
		Ports *[]Port `json:"ports"`
		Next  string  `json:"next"`
	}
	if err := decode(k, raw, &page); err != nil {
		return nil, "", err
	}
	if page.Ports == nil {
		return nil, "", garbled(k.name(), "Ironic's answer has no list of ports")
	}
	for i, p := range *page.Ports {
		if p.UUID == "" {
			return nil, "", garbled(k.name(), "Ironic's list has a port without a uuid")
		}
		(*page.Ports)[i].Address = strings.ToLower(p.Address)
	}
	return *page.Ports, page.Next, nil
}

// CreatePort implements inspector.PortClient.
func (c *Client) CreatePort(ctx context.Context, p Port) (Port, error) {
	p.Address = strings.ToLower(p.Address)
	if p.Extra == nil {
		p.Extra = map[string]any{} // Ironic takes no null here
	}
	k := call{method: http.MethodPost, path: "ports", body: p, limit: maxNode,
		meanings: []meaning{{http.StatusConflict, "already exists", ErrPortExists}}}
	raw, err := c.now.Load().do(ctx, k)
	if err != nil {
		return Port{}, err
	}
	var created Port
	if err := decode(k, raw, &created); err != nil {
		return Port{}, err
	}
	if created.UUID == "" {
		return Port{}, garbled(k.name(), "Ironic's answer about a port has no uuid")
	}
	created.Address = strings.ToLower(created.Address)
	return created, nil
}

// PatchPort implements inspector.PortClient. What links and networks the ports
// of a deployed node have, Ironic does not change; it says so with the status of
// a locked node, for which alone it is worth waiting.
func (c *Client) PatchPort(ctx context.Context, port string, patch []Patch) error {
	_, err := c.now.Load().do(ctx, call{method: http.MethodPatch, path: "ports/" + url.PathEscape(port), body: patch,
		meanings: []meaning{{http.StatusConflict, "connectivity attributes", errDeployed}}})
	return err
}

// DeletePort implements inspector.PortClient. A port that is not there is
// deleted: an earlier try may have done it.
func (c *Client) DeletePort(ctx context.Context, port string) error {
	_, err := c.now.Load().do(ctx, call{method: http.MethodDelete, path: "ports/" + url.PathEscape(port),
		meanings: []meaning{{http.StatusNotFound, "Port ", errNoPort}}})
	if errors.Is(err, errNoPort) {
		return nil
	}
	return err
}
