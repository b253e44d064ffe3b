//go:build e2e

package labtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/trivet-ha/trivet/test/testwait"
)

// ironicVersion is the API version that the lab itself speaks with Ironic.
const ironicVersion = "1.78"

// ironicWidth is how many calls the lab makes at once: Ironic is one Python
// process.
const ironicWidth = 4

// Machine is a node as a test means to enroll it. The numbers make up all of
// it, so that what boots on it can be made up elsewhere.
type Machine struct {
	UUID, Name string
	MAC        string
	BMC        string // address of its management controller
}

// MachineNumber returns the machine of that number, 0 to 65535.
func MachineNumber(n int) Machine {
	hi, lo := n>>8, n&0xff
	return Machine{
		UUID: fmt.Sprintf("00000000-0000-4000-9000-%012x", n),
		Name: fmt.Sprintf("node-%d", n),
		MAC:  fmt.Sprintf("52:54:00:aa:%02x:%02x", hi, lo),
		BMC:  fmt.Sprintf("198.19.%d.%d", hi, lo),
	}
}

// Node is what Ironic tells of one.
type Node struct {
	UUID       string         `json:"uuid"`
	Name       string         `json:"name"`
	Provision  string         `json:"provision_state"`
	Power      string         `json:"power_state"`
	LastError  string         `json:"last_error"`
	Properties map[string]any `json:"properties"`
}

// Port is what Ironic tells of one.
type Port struct {
	UUID       string `json:"uuid"`
	Address    string `json:"address"`
	PXEEnabled bool   `json:"pxe_enabled"`
}

// Call speaks to Ironic. An answer of 400 or above is a *Refusal.
func (i *Ironic) Call(method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequest(method, "http://"+i.Addr+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("X-OpenStack-Ironic-API-Version", ironicVersion)
	req.Header.Set("Content-Type", "application/json")
	resp, err := i.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return &Refusal{Status: resp.StatusCode, Body: string(text)}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

// Insist is Call, again while the conductor holds the node or is busy.
func (i *Ironic) Insist(method, path string, in any) error {
	var final error // an answer that asking again does not change
	return errors.Join(testwait.Poll(context.Background(), electLimit, "Ironic is not busy with "+path, func() error {
		err := i.Call(method, path, in, nil)
		var refusal *Refusal
		if errors.As(err, &refusal) && (refusal.Status == http.StatusConflict || refusal.Status == http.StatusServiceUnavailable) {
			return err
		}
		final = err
		return nil
	}), final)
}

// Enroll makes nodes of the machines first to first+n-1, each with its port,
// and waits until they are manageable.
func (i *Ironic) Enroll(first, n int) []Machine {
	i.t.Helper()
	machines := make([]Machine, n)
	for k := range machines {
		machines[k] = MachineNumber(first + k)
	}
	if err := parallel(n, ironicWidth, func(k int) error { return i.enroll(machines[k]) }); err != nil {
		i.t.Fatalf("enroll %d nodes: %v", n, err)
	}
	for _, m := range machines {
		eventually(i.t, electLimit, m.Name+" is manageable", func() error {
			node, err := i.Node(m.UUID)
			if err == nil && node.Provision != "manageable" {
				err = fmt.Errorf("it is %q", node.Provision)
			}
			return err
		})
	}
	return machines
}

func (i *Ironic) enroll(m Machine) error {
	node := map[string]any{"uuid": m.UUID, "name": m.Name, "driver": "fake-hardware", "driver_info": map[string]string{"ipmi_address": m.BMC}}
	if err := i.Insist("POST", "/v1/nodes", node); err != nil {
		return err
	}
	port := map[string]string{"node_uuid": m.UUID, "address": m.MAC}
	if err := i.Insist("POST", "/v1/ports", port); err != nil {
		return err
	}
	return i.Insist("PUT", "/v1/nodes/"+m.UUID+"/states/provision", map[string]string{"target": "manage"})
}

// Node reads a node by UUID or name.
func (i *Ironic) Node(ref string) (n Node, err error) {
	return n, i.Call("GET", "/v1/nodes/"+ref, nil, &n)
}

// Ports reads a node's ports.
func (i *Ironic) Ports(node string) ([]Port, error) {
	var got struct{ Ports []Port }
	err := i.Call("GET", "/v1/ports/detail?node="+node, nil, &got)
	return got.Ports, err
}

// NodeIDs lists all nodes, page by page.
func (i *Ironic) NodeIDs() ([]string, error) {
	var all []string
	for path := "/v1/nodes?fields=uuid"; path != ""; {
		var page struct {
			Nodes []struct{ UUID string }
			Next  string
		}
		if err := i.Call("GET", path, nil, &page); err != nil {
			return nil, err
		}
		for _, n := range page.Nodes {
			all = append(all, n.UUID)
		}
		_, path, _ = strings.Cut(page.Next, i.Addr) // "" where there is no next
	}
	return all, nil
}

// Wipe deletes every node, and with it its ports.
func (i *Ironic) Wipe() {
	i.t.Helper()
	ids, err := i.NodeIDs()
	if err != nil {
		i.t.Fatalf("wipe Ironic: %v", err)
	}
	if err := parallel(len(ids), ironicWidth, func(k int) error { return i.delete(ids[k]) }); err != nil {
		i.t.Fatalf("wipe Ironic: %v", err)
	}
}

// delete removes a node whatever it is doing: only one in maintenance can be
// deleted from every state.
func (i *Ironic) delete(id string) error {
	if err := i.Insist("PUT", "/v1/nodes/"+id+"/maintenance", map[string]string{}); err != nil {
		return err
	}
	return i.Insist("DELETE", "/v1/nodes/"+id, nil)
}
