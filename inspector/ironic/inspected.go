package ironic

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
)

// Provision states of a node that Ironic inspects.
const (
	InspectWait = "inspect wait" // Ironic waits for the ramdisk's document
	Inspecting  = "inspecting"   // before, or after the document came
)

// inspectStates are those in which Ironic inspects a node with a ramdisk, in the order in
// which they are listed: inspecting, while it waits for the document, and inspecting again.
// A node that goes on to the next state between two lists, or back when its ramdisk calls,
// is in one of the three.
var inspectStates = [...]string{Inspecting, InspectWait, Inspecting}

// Inspected lists the nodes that Ironic inspects by one of the inspect interfaces
// named: all of them, or an error. A node that goes from one state to the other
// meanwhile is there once, and none is that Ironic lists in another state.
func (c *Client) Inspected(ctx context.Context, interfaces []string) ([]string, error) {
	var nodes []string
	seen := make(map[string]bool)
	for _, state := range inspectStates {
		path := "nodes?provision_state=" + url.QueryEscape(state) + "&fields=uuid,inspect_interface,provision_state"
		listed, err := c.now.Load().listNodes(ctx, path)
		if err != nil {
			return nil, err
		}
		for _, n := range listed {
			inspected := slices.Contains(inspectStates[:], n.Provision) && slices.Contains(interfaces, n.Interface)
			if inspected && !seen[n.UUID] {
				nodes = append(nodes, n.UUID)
				seen[n.UUID] = true
			}
		}
	}
	return nodes, nil
}

// Addresses lists the addresses of a node's ports, in lower case, those that may boot by PXE
// first. It fails with ErrNoNode if Ironic does not know the node.
func (c *Client) Addresses(ctx context.Context, node string) ([]string, error) {
	ports, err := c.now.Load().portsOf(ctx, node, "ports?fields=uuid,address,node_uuid,pxe_enabled&node=")
	if err != nil {
		return nil, err
	}
	addresses := make([]string, 0, len(ports))
	for _, p := range BootFirst(ports) {
		addresses = append(addresses, p.Address)
	}
	return addresses, nil
}

// InspectInterfaces are those by which an Ironic inspects.
type InspectInterfaces struct {
	// Enabled are those of the drivers of all conductors that live, sorted, each once. None:
	// no conductor lives, or Ironic does not tell this user.
	Enabled []string
	// Nodes counts the nodes of Ironic's first page by their inspect interface.
	Nodes map[string]int
}

// InspectInterfaces asks Ironic which inspect interfaces it has and which ones its nodes
// use, and no guard. What could be found out is returned with the error of the rest: the
// list of drivers wants a reader of the whole system, nodes do not.
func (c *Client) InspectInterfaces(ctx context.Context) (InspectInterfaces, error) {
	ctx = WithGuard(ctx, func() error { return nil })
	l, found := c.now.Load(), InspectInterfaces{Nodes: make(map[string]int)}
	var drivers struct {
		Drivers []struct {
			Enabled []string `json:"enabled_inspect_interfaces"`
		} `json:"drivers"`
	}
	var nodes struct {
		Nodes []struct {
			Interface string `json:"inspect_interface"`
		} `json:"nodes"`
	}
	err := errors.Join(
		l.get(ctx, "drivers?detail=true", &drivers),
		l.get(ctx, "nodes?limit=1000&fields=inspect_interface", &nodes),
	)
	for _, d := range drivers.Drivers {
		found.Enabled = append(found.Enabled, slices.DeleteFunc(d.Enabled, strange)...)
	}
	slices.Sort(found.Enabled)
	found.Enabled = slices.Compact(found.Enabled)
	found.Enabled = found.Enabled[:min(len(found.Enabled), maxInterfaces)]
	for _, n := range nodes.Nodes {
		if _, known := found.Nodes[n.Interface]; !strange(n.Interface) && (known || len(found.Nodes) < maxInterfaces) {
			found.Nodes[n.Interface]++
		}
	}
	return found, err
}

// maxInterfaces bounds the inspect interfaces that are told apart. Ironic has ten.
const maxInterfaces = 64

// strange reports whether a text is no name of an interface.
func strange(name string) bool { return name == "" || len(name) > maxInterfaces || !possible(name) }

// get asks for a document and decodes it.
func (l *line) get(ctx context.Context, path string, into any) error {
	k := call{method: http.MethodGet, path: path, limit: maxPage}
	raw, err := l.do(ctx, k)
	if err != nil {
		return err
	}
	return decode(k, raw, into)
}
