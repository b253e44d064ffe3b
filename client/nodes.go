package client

import "context"

// NodeName is a node and its name in Ironic, "" if it has none.
type NodeName struct {
	UUID string `json:"uuid"`
	Name string `json:"name"`
}

// NodeNames lists the nodes in Ironic. Trivet alone answers this.
func (c *Client) NodeNames(ctx context.Context) ([]NodeName, error) {
	a, err := c.ask(ctx, c.reading(nil, "nodes"))
	if err != nil {
		return nil, err
	}
	var list struct {
		Nodes *[]NodeName `json:"nodes"`
	}
	if err := a.decode(&list, func() bool { return list.Nodes != nil }); err != nil {
		return nil, err
	}
	return *list.Nodes, nil
}

// NodeName reads one node, by UUID or name.
func (c *Client) NodeName(ctx context.Context, node string) (NodeName, error) {
	return asked(ctx, c.endpoints, c.reading(nil, "nodes", node), func(n NodeName) bool { return n.UUID != "" })
}
