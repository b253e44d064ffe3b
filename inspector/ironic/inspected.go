package ironic

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/trivet-ha/trivet/inspector"
)

// inspectStates are those in which Ironic inspects a node with a ramdisk: while
// it waits for its data, and before and after.
var inspectStates = [...]string{"inspect wait", "inspecting"}

// Inspected lists the nodes that Ironic inspects by one of the inspect interfaces
// named: all of them, or an error. A node that goes from one state to the other
// meanwhile is there once.
func (c *Client) Inspected(ctx context.Context, interfaces []string) ([]string, error) {
	var nodes []string
	seen := make(map[string]bool)
	for _, state := range inspectStates {
		listed, err := c.now.Load().inState(ctx, state, interfaces)
		if err != nil {
			return nil, err
		}
		for _, node := range listed {
			if !seen[node] {
				nodes = append(nodes, node)
			}
			seen[node] = true
		}
	}
	return nodes, nil
}

func (l *line) inState(ctx context.Context, state string, interfaces []string) ([]string, error) {
	var nodes []string
	k := call{method: http.MethodGet, path: "nodes?provision_state=" + url.QueryEscape(state) + "&fields=uuid,inspect_interface", limit: maxPage}
	err := l.pages(ctx, k, func(raw []byte) (next string, err error) {
		var page struct {
			Nodes *[]struct {
				UUID      string `json:"uuid"`
				Interface string `json:"inspect_interface"`
			} `json:"nodes"`
			Next string `json:"next"`
		}
		if err := decode(k, raw, &page); err != nil {
			return "", err
		}
		if page.Nodes == nil {
			return "", garbled(k.name(), "Ironic's answer has no list of nodes")
		}
		for _, n := range *page.Nodes {
			if n.UUID == "" {
				return "", garbled(k.name(), "Ironic's list has a node without a uuid")
			}
			if slices.Contains(interfaces, n.Interface) {
				nodes = append(nodes, n.UUID)
			}
		}
		return page.Next, nil
	})
	if err != nil {
		return nil, err
	}
	return nodes, nil
}

// Addresses lists the addresses of a node's ports, in lower case. It fails with
// inspector.ErrNoNode if Ironic does not know the node.
func (c *Client) Addresses(ctx context.Context, node string) ([]string, error) {
	ports, err := c.now.Load().listPorts(ctx, call{method: http.MethodGet, path: "ports?node=" + url.QueryEscape(node) + "&fields=uuid,address", limit: maxPage,
		meanings: []meaning{{http.StatusNotFound, "Node ", inspector.ErrNoNode}}})
	if err != nil {
		return nil, err
	}
	addresses := make([]string, 0, len(ports))
	for _, p := range ports {
		addresses = append(addresses, p.Address)
	}
	return addresses, nil
}
