package ironic

import (
	"context"
	"net/http"
	"net/url"

	"github.com/trivet-ha/trivet/inspector"
)

// nodeFields are what an inspector reads of a node. Ironic would otherwise
// collect seventy more, some from tables of their own.
const nodeFields = "?fields=uuid,name,provision_state,power_state,driver_info,properties,extra"

// noNode tells the 404 of a node, and the 400 of what cannot be a node's name,
// from those of a wrong address, which must not pass for the node's absence.
func noNode() []meaning {
	return []meaning{
		{http.StatusNotFound, "Node ", inspector.ErrNoNode},
		{http.StatusBadRequest, "Expected a logical name or UUID", inspector.ErrNoNode},
	}
}

// Node implements inspector.NodeClient.
func (c *Client) Node(ctx context.Context, ref string) (inspector.Node, error) {
	k := call{method: http.MethodGet, path: "nodes/" + url.PathEscape(ref) + nodeFields, limit: maxNode, meanings: noNode()}
	switch ref {
	case "", ".", "..", "detail": // lists and other places, and no names
		return inspector.Node{}, &inspector.IronicError{Call: k.name(), Status: http.StatusNotFound,
			Message: "Node " + ref + " could not be found.", Err: inspector.ErrNoNode}
	}
	return c.oneNode(ctx, k)
}

// PatchNode implements inspector.NodeClient.
func (c *Client) PatchNode(ctx context.Context, node string, patch []inspector.Patch) (inspector.Node, error) {
	return c.oneNode(ctx, call{method: http.MethodPatch, path: "nodes/" + url.PathEscape(node), body: patch, limit: maxNode, meanings: noNode()})
}

func (c *Client) oneNode(ctx context.Context, k call) (inspector.Node, error) {
	raw, err := c.do(ctx, k)
	if err != nil {
		return inspector.Node{}, err
	}
	var n inspector.Node
	if err := decode(k, raw, &n); err != nil {
		return inspector.Node{}, err
	}
	if n.UUID == "" {
		return inspector.Node{}, garbled(k.name(), "Ironic's answer about a node has no uuid")
	}
	return n, nil
}

// NodeIDs implements inspector.NodeClient.
func (c *Client) NodeIDs(ctx context.Context) ([]string, error) {
	var ids []string
	k := call{method: http.MethodGet, path: "nodes?fields=uuid", limit: maxPage}
	err := c.pages(ctx, k, func(raw []byte) (next string, err error) {
		var page struct {
			Nodes *[]struct {
				UUID string `json:"uuid"`
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
			ids = append(ids, n.UUID)
		}
		return page.Next, nil
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// PowerValid implements inspector.PowerClient.
func (c *Client) PowerValid(ctx context.Context, node string) (ok bool, reason string, err error) {
	k := call{method: http.MethodGet, path: "nodes/" + url.PathEscape(node) + "/validate", limit: maxNode, meanings: noNode()}
	raw, err := c.do(ctx, k)
	if err != nil {
		return false, "", err
	}
	var answer struct {
		Power *struct {
			Result bool   `json:"result"` // null where the driver has no such interface
			Reason string `json:"reason"`
		} `json:"power"`
	}
	if err := decode(k, raw, &answer); err != nil {
		return false, "", err
	}
	if answer.Power == nil {
		return false, "", garbled(k.name(), "Ironic's validation says nothing about power")
	}
	reason = cut(answer.Power.Reason)
	if !answer.Power.Result && reason == "" {
		reason = "Ironic gives no reason"
	}
	return answer.Power.Result, reason, nil
}

// SetBootDevice implements inspector.PowerClient.
func (c *Client) SetBootDevice(ctx context.Context, node, device string, persistent bool) error {
	body := struct {
		Device     string `json:"boot_device"`
		Persistent bool   `json:"persistent"`
	}{device, persistent}
	return c.put(ctx, "nodes/"+url.PathEscape(node)+"/management/boot_device", body)
}

// SetPower implements inspector.PowerClient.
func (c *Client) SetPower(ctx context.Context, node, target string) error {
	body := struct {
		Target string `json:"target"`
	}{target}
	return c.put(ctx, "nodes/"+url.PathEscape(node)+"/states/power", body)
}

func (c *Client) put(ctx context.Context, path string, body any) error {
	_, err := c.do(ctx, call{method: http.MethodPut, path: path, body: body, insistent: true, meanings: noNode()})
	return err
}
