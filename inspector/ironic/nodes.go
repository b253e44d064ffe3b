package ironic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/trivet-ha/trivet/inspector/document"
)

// nodeFields are what an inspector reads of a node. Ironic would otherwise
// collect seventy more, some from tables of their own.
const nodeFields = "?fields=uuid,name,provision_state,power_state,driver_info,properties,extra"

// nodeCall is a call about a node, or about what rest names below it.
func nodeCall(method, ref, rest string) (call, error) {
	k := call{method: method, path: "nodes/" + url.PathEscape(ref) + rest, node: ref, limit: maxNode, meanings: []meaning{
		// Only Ironic's own 404 of a node: that of a wrong address must not pass
		// for the node's absence.
		{http.StatusNotFound, "Node ", ErrNoNode},
		{http.StatusBadRequest, "Expected UUID or name for node", ErrNoNode},
	}}
	if !possible(ref) {
		return k, &Error{Call: k.name(), Status: http.StatusNotFound, Own: true,
			Message: cut("Node " + ref + " could not be found."), Err: ErrNoNode}
	}
	return k, nil
}

// maxName bounds the name of a node, in bytes, as Ironic does.
const maxName = 255

// possible reports whether a node can be called so. Ironic allows what stands
// unescaped in a URL and reserves what stands for other places there. It is not
// asked about anything else, because it decodes before it looks for slashes:
// "a%2Fstates" would lead it to a's states.
func possible(ref string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"
	if ref == "" || len(ref) > maxName || strings.Trim(ref, allowed) != "" {
		return false
	}
	switch ref {
	case ".", "..", // which proxies resolve
		"allocation", "bios", "detail", "history", "inventory", "maintenance", "management", "portgroups",
		"ports", "states", "traits", "validate", "vendor_passthru", "vifs", "volume":
		return false
	}
	return true
}

// Node reads a node by UUID or name; ErrNoNode if there is none.
func (c *Client) Node(ctx context.Context, ref string) (Node, error) {
	return c.now.Load().node(ctx, ref, nodeFields)
}

// node reads what rest asks for of a node.
func (l *line) node(ctx context.Context, ref, rest string) (Node, error) {
	k, err := nodeCall(http.MethodGet, ref, rest)
	if err != nil {
		return Node{}, err
	}
	return l.oneNode(ctx, k)
}

// oneNode makes a call that is answered with a node.
func (l *line) oneNode(ctx context.Context, k call) (Node, error) {
	raw, err := l.do(ctx, k)
	if err != nil {
		return Node{}, err
	}
	n, err := decodeNode(raw)
	if err != nil {
		return Node{}, unreadable(k, raw, err)
	}
	if n.UUID == "" {
		return Node{}, garbled(k.name(), "Ironic's answer about a node has no uuid")
	}
	return n, nil
}

// decodeNode reads a node. A patch is answered with all its eighty fields, so those
// that Node does not have are stepped over.
func decodeNode(raw []byte) (n Node, err error) {
	fields := map[string]any{
		"uuid": &n.UUID, "name": &n.Name, "provision_state": &n.Provision, "power_state": &n.Power,
		"driver_info": &n.DriverInfo, "properties": &n.Properties, "extra": &n.Extra,
	}
	err = document.Pick(raw, func(name []byte) any { return fields[string(name)] })
	return n, err
}

// NodeIDs implements periodic.Ironic.
func (c *Client) NodeIDs(ctx context.Context) (ids []string, err error) {
	nodes, err := c.now.Load().listNodes(ctx, "nodes?fields=uuid")
	for _, n := range nodes {
		ids = append(ids, n.UUID)
	}
	return ids, err
}

// NodeNames implements accept.NameClient.
func (c *Client) NodeNames(ctx context.Context) ([]NodeName, error) {
	nodes, err := c.now.Load().listNodes(ctx, "nodes?fields=uuid,name")
	names := make([]NodeName, len(nodes))
	for i, n := range nodes {
		names[i] = NodeName{UUID: n.UUID, Name: n.Name}
	}
	return names, err
}

// NodesWithBMC implements identify.Ironic.
func (c *Client) NodesWithBMC(ctx context.Context) (nodes []Node, err error) {
	listed, err := c.now.Load().listNodes(ctx, "nodes?fields=uuid,provision_state,driver_info")
	for _, n := range listed {
		nodes = append(nodes, n.Node)
	}
	return nodes, err
}

// listedNode is a node in a list, with what the list was asked for, and as records have its UUID.
type listedNode struct {
	Node
	Interface string `json:"inspect_interface"`
}

// listNodes lists the nodes that path asks for, all of them or an error.
func (l *line) listNodes(ctx context.Context, path string) ([]listedNode, error) {
	k := call{method: http.MethodGet, path: path, limit: maxPage}
	return pages(ctx, l, k, func(raw []byte) (nodes []listedNode, next string, err error) {
		var page struct {
			Nodes *[]listedNode `json:"nodes"`
			Next  string        `json:"next"`
		}
		if err := decode(k, raw, &page); err != nil {
			return nil, "", err
		}
		if page.Nodes == nil {
			return nil, "", garbled(k.name(), "Ironic's answer has no list of nodes")
		}
		for i, n := range *page.Nodes {
			if n.UUID == "" {
				return nil, "", garbled(k.name(), "Ironic's list has a node without a uuid")
			}
			(*page.Nodes)[i].UUID = canonical(n.UUID)
		}
		return *page.Nodes, page.Next, nil
	})
}

// CreateNode implements work.Machines.
func (c *Client) CreateNode(ctx context.Context, n NewNode) (Node, error) {
	body := make(map[string]any, len(n.Fields)+3)
	for name, value := range n.Fields {
		body[name] = value
	}
	body["uuid"], body["driver"], body["driver_info"] = n.UUID, n.Driver, n.DriverInfo
	l := c.now.Load()
	made, err := l.oneNode(ctx, call{method: http.MethodPost, path: "nodes", body: body, limit: maxNode,
		meanings: []meaning{{http.StatusConflict, "A node with UUID ", ErrNodeExists}}})
	return made, l.driverJudged(ctx, err)
}

// NodeWhole implements inspector.RuleClient.
func (c *Client) NodeWhole(ctx context.Context, node string) (map[string]any, error) {
	k, raw, err := c.now.Load().ask(ctx, node, "")
	if err != nil {
		return nil, err
	}
	var whole map[string]any
	read := json.NewDecoder(bytes.NewReader(raw))
	read.UseNumber()
	if err := read.Decode(&whole); err != nil || whole["uuid"] == nil {
		return nil, garbled(k.name(), "Ironic's answer about a node cannot be read: %v", err)
	}
	return whole, nil
}

// ask reads what rest names of a node.
func (l *line) ask(ctx context.Context, node, rest string) (k call, raw []byte, err error) {
	if k, err = nodeCall(http.MethodGet, node, rest); err == nil {
		raw, err = l.do(ctx, k)
	}
	return k, raw, err
}

// tell decodes what rest names of a node.
func (l *line) tell(ctx context.Context, node, rest string, into any) (call, error) {
	k, raw, err := l.ask(ctx, node, rest)
	if err == nil {
		err = decode(k, raw, into)
	}
	return k, err
}

// PowerValid implements accept.Ironic.
func (c *Client) PowerValid(ctx context.Context, node string) (ok bool, reason string, err error) {
	var answer struct {
		Power *struct {
			Result bool            `json:"result"` // null where the driver has no such interface
			Reason json.RawMessage `json:"reason"`
		} `json:"power"`
	}
	k, err := c.now.Load().tell(ctx, node, "/validate", &answer)
	if err != nil {
		return false, "", err
	}
	if answer.Power == nil {
		return false, "", garbled(k.name(), "Ironic's validation says nothing about power")
	}
	if answer.Power.Result {
		return true, "", nil
	}
	// As the original writes why a validation failed: null is None in Python.
	switch raw := answer.Power.Reason; {
	case len(raw) == 0:
		return false, "no reason", nil
	case string(raw) == "null":
		return false, "None", nil
	}
	if err := json.Unmarshal(answer.Power.Reason, &reason); err != nil {
		return false, "", garbled("validate", "Ironic's reason for a failed validation is no text: %.100s",
			answer.Power.Reason)
	}
	return false, cut(reason), nil
}

// SetBootDevice implements work.Machines.
func (c *Client) SetBootDevice(ctx context.Context, node, device string, persistent bool) error {
	body := map[string]any{"boot_device": device, "persistent": persistent}
	return c.now.Load().put(ctx, node, "/management/boot_device", false, body)
}

// SetPower implements work.Machines. A reset that Ironic may have carried out is not repeated:
// the machine would boot a second time, and may have used up a boot device that is for one boot.
func (c *Client) SetPower(ctx context.Context, node, target string) error {
	return c.now.Load().put(ctx, node, "/states/power", target == PowerReboot, map[string]any{"target": target},
		meaning{http.StatusConflict, "Failed to set node power state", ErrStaysOn})
}

func (l *line) put(ctx context.Context, node, rest string, once bool, body map[string]any, means ...meaning) error {
	k, err := nodeCall(http.MethodPut, node, rest)
	if err != nil {
		return err
	}
	k.body, k.limit, k.bmc, k.once = body, 0, true, once
	k.meanings = append(k.meanings, means...)
	_, err = l.do(ctx, k)
	return err
}

// FindNode returns the UUID of the node that ref means: its UUID, its name, or the
// MAC of one of its ports.
func (c *Client) FindNode(ctx context.Context, ref string) (uuid string, found bool, err error) {
	if mac, err := net.ParseMAC(ref); err == nil {
		ports, err := c.PortsAt(ctx, mac.String())
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
	n, err := c.now.Load().node(ctx, ref, "?fields=uuid")
	if errors.Is(err, ErrNoNode) {
		return "", false, nil
	}
	return n.UUID, err == nil, err
}

// PowerState returns what Ironic remembers of a node's power, what it is doing
// about it ("" for nothing), and its last trouble with the node. Ironic asks the
// machine itself only before it switches it, and now and then.
func (c *Client) PowerState(ctx context.Context, node string) (state, doing, trouble string, err error) {
	var answer struct {
		State  string `json:"power_state"` // null until Ironic has asked the machine
		Target string `json:"target_power_state"`
		Holder string `json:"reservation"`
		Error  string `json:"last_error"`
	}
	const fields = "?fields=power_state,target_power_state,reservation,last_error"
	if _, err := c.now.Load().tell(ctx, node, fields, &answer); err != nil {
		return "", "", "", err
	}
	switch {
	case answer.Target != "":
		doing = answer.Target
	case answer.Holder != "":
		doing = fmt.Sprintf("something else: %s holds it", cut(answer.Holder))
	}
	return answer.State, doing, cut(answer.Error), nil
}

var errNoTrait = errors.New("the node has no such trait")

// AddTrait implements inspector.RuleClient.
func (c *Client) AddTrait(ctx context.Context, node, trait string) error {
	return c.now.Load().trait(ctx, http.MethodPut, node, trait)
}

// RemoveTrait implements inspector.RuleClient.
func (c *Client) RemoveTrait(ctx context.Context, node, trait string) error {
	err := c.now.Load().trait(ctx, http.MethodDelete, node, trait)
	if errors.Is(err, errNoTrait) {
		return nil
	}
	return err
}

func (l *line) trait(ctx context.Context, method, node, trait string) error {
	k, err := nodeCall(method, node, "/traits/"+url.PathEscape(trait))
	if err != nil {
		return err
	}
	// "Node X doesn't have a trait 'T'" begins like the sentence about a node
	// that is not there.
	k.meanings = append([]meaning{{http.StatusNotFound, " trait", errNoTrait}}, k.meanings...)
	k.limit = 0
	_, err = l.do(ctx, k)
	return err
}
