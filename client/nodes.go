package client

import "context"

// NodeName is a node and its name in Ironic, "" if it has none.
type NodeName struct {
	UUID string `json:"uuid"`
	Name string `json:"name"`
}

// NodeNames lists the nodes in Ironic. Trivet alone answers this.
func (c *Client) NodeNames(ctx context.Context) ([]NodeName, error) {
	return listed[NodeName](ctx, c, "nodes", "nodes")
}

// NodeName reads one node, by UUID or name.
func (c *Client) NodeName(ctx context.Context, node string) (NodeName, error) {
	return asked(ctx, c.endpoints, c.reading(nil, "nodes", node), func(n NodeName) bool { return n.UUID != "" })
}

// Wait is a state of a node that lasts, and what it waits for.
type Wait struct {
	Kind    string `json:"kind"`
	Subject string `json:"subject"`
	Count   int    `json:"count"`
	For     string `json:"waits_for"`
	Since   string `json:"since,omitempty"` // RFC 3339, "" if it is not known
	Until   string `json:"until,omitempty"` // RFC 3339, "" if there is no limit
	Then    string `json:"then"`            // what happens then, or why there is no limit
	Do      string `json:"do"`              // what an operator may do
	Finding string `json:"finding,omitempty"`
	Warning string `json:"warning,omitempty"`
}

// NodeWaits lists what a node waits for, as the peer that answers sees it. Trivet alone answers
// this.
func NodeWaits(ctx context.Context, c *Client, node string) ([]Wait, error) {
	return listed[Wait](ctx, c, "waits", "nodes", node, "waits")
}
