package ironic

import (
	"context"
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
