package ironic

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// FindNode returns the UUID of the node that ref means: its UUID, its name, or the
// MAC of one of its ports.
func (c *Client) FindNode(ctx context.Context, ref string) (uuid string, found bool, err error) {
	if mac, err := net.ParseMAC(ref); err == nil {
		return nodeAt(ctx, c, mac.String())
	}
	n, err := c.now.Load().node(ctx, ref, "?fields=uuid")
	if errors.Is(err, ErrNoNode) {
		return "", false, nil
	}
	return n.UUID, err == nil, err
}

func nodeAt(ctx context.Context, c *Client, mac string) (uuid string, found bool, err error) {
	ports, err := c.PortsAt(ctx, mac)
	if err != nil || len(ports) == 0 {
		return "", false, err
	}
	for _, p := range ports {
		if p.Node == "" || p.Node != ports[0].Node {
			return "", false, garbled("GET v1/ports", "Ironic has the address %s at more than one node", mac)
		}
	}
	return ports[0].Node, true, nil
}

// PowerState returns what Ironic remembers of a node's power, what it is doing
// about it ("" for nothing), and its last trouble with the node. Ironic asks the
// machine itself only before it switches it, and now and then.
func (c *Client) PowerState(ctx context.Context, node string) (state, doing, trouble string, err error) {
	var answer struct {
		State  *string `json:"power_state"` // null until Ironic has asked the machine
		Target string  `json:"target_power_state"`
		Holder string  `json:"reservation"`
		Error  string  `json:"last_error"`
	}
	const fields = "?fields=power_state,target_power_state,reservation,last_error"
	if _, err := c.now.Load().tell(ctx, node, fields, &answer); err != nil {
		return "", "", "", err
	}
	if answer.State != nil {
		state = *answer.State
	}
	switch {
	case answer.Target != "":
		doing = answer.Target
	case answer.Holder != "":
		doing = fmt.Sprintf("something else: %s holds it", cut(answer.Holder))
	}
	return state, doing, cut(answer.Error), nil
}
