//go:build e2e

package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/sandbox/machine"
	"github.com/trivet-ha/trivet/test/testwait"
)

// IronicWidth is how many calls the lab makes at once: Ironic is one Python
// process.
const IronicWidth = 4

// busyLimit is what a busy conductor may take for one step.
const busyLimit = time.Minute

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

// Hardware is the machine as it is simulated.
func (m Machine) Hardware() machine.Machine {
	return machine.Machine{UUID: m.UUID, MACs: []string{m.MAC}, BMC: m.BMC}
}

// Inventory is the document that boots of the machine post.
func (m Machine) Inventory() []byte { return machine.Inventory(m.Hardware()) }

// Node is what Ironic tells of one.
type Node struct {
	Provision  string         `json:"provision_state"`
	Power      string         `json:"power_state"`
	LastError  string         `json:"last_error"`
	Properties map[string]any `json:"properties"`
}

// Port is what Ironic tells of one.
type Port struct {
	Address    string `json:"address"`
	PXEEnabled bool   `json:"pxe_enabled"`
}

// nodes are those of an Ironic, as its API tells of them.
type nodes struct {
	test    testing.TB
	version string // of the API that is spoken

	// Addr is host:port of its API.
	Addr string
}

// Call speaks to Ironic. An answer of 400 or above is an *httpapi.Refusal.
func (i nodes) Call(method, path string, in, out any) error {
	header := map[string]string{"X-OpenStack-Ironic-API-Version": i.version, "Content-Type": "application/json"}
	return httpapi.Call(&http.Client{Timeout: 30 * time.Second}, i.Addr, method, path, header, in, out)
}

// Insist is Call, again while there is no answer or the conductor holds the node or is busy.
func (i nodes) Insist(method, path string, in any) error {
	var final error // an answer that asking again does not change
	return errors.Join(testwait.Poll(context.Background(), busyLimit, "Ironic takes "+path, func() error {
		err := i.Call(method, path, in, nil)
		var refusal *httpapi.Refusal
		if errors.As(err, &refusal) && refusal.Status != http.StatusConflict && refusal.Status < 500 {
			final = err
			return nil
		}
		return err
	}), final)
}

// Enroll makes nodes of the machines first to first+n-1, each with its port,
// and waits until they are manageable.
func (i nodes) Enroll(first, n int) []Machine {
	i.test.Helper()
	machines := make([]Machine, n)
	for k := range machines {
		machines[k] = MachineNumber(first + k)
	}
	if err := httpapi.Parallel(n, IronicWidth, func(k int) error { return i.enroll(machines[k]) }); err != nil {
		i.test.Fatalf("enroll %d nodes: %v", n, err)
	}
	i.WaitState(machines, "manageable")
	return machines
}

func (i nodes) enroll(m Machine) error {
	node := map[string]any{"uuid": m.UUID, "name": m.Name, "driver": "fake-hardware",
		"driver_info": map[string]string{"ipmi_address": m.BMC}}
	if err := i.Insist("POST", "/v1/nodes", node); err != nil {
		return err
	}
	port := map[string]string{"node_uuid": m.UUID, "address": m.MAC}
	if err := i.Insist("POST", "/v1/ports", port); err != nil {
		return err
	}
	return i.provision(m, "manage")
}

func (i nodes) provision(m Machine, target string) error {
	return i.Insist("PUT", "/v1/nodes/"+m.UUID+"/states/provision", map[string]string{"target": target})
}

// Provision sets a target for the provision state of a machine's node.
func (i nodes) Provision(m Machine, target string) {
	i.test.Helper()
	if err := i.provision(m, target); err != nil {
		i.test.Fatalf("%s: %s: %v", m.Name, target, err)
	}
}

// State is the provision state of a machine's node.
func (i nodes) State(m Machine) (string, error) {
	node, err := i.Node(m.UUID)
	if err == nil && strings.HasSuffix(node.Provision, "failed") {
		return node.Provision, fmt.Errorf("%s: %s", m.Name, node.LastError)
	}
	return node.Provision, err
}

// WaitState waits until the nodes of all machines are in a provision state.
func (i nodes) WaitState(machines []Machine, state string) {
	i.test.Helper()
	limit := time.Duration(len(machines)) * busyLimit
	testwait.Within(i.test, limit, fmt.Sprintf("%d nodes are %s", len(machines), state), func() error {
		for _, m := range machines {
			if now, err := i.State(m); err != nil || now != state {
				return errors.Join(err, fmt.Errorf("%s is %q", m.Name, now))
			}
		}
		return nil
	})
}

// Node reads a node by UUID or name.
func (i nodes) Node(ref string) (n Node, err error) {
	return n, i.Call("GET", "/v1/nodes/"+ref, nil, &n)
}

// Ports reads a node's ports.
func (i nodes) Ports(node string) ([]Port, error) {
	var got struct{ Ports []Port }
	err := i.Call("GET", "/v1/ports/detail?node="+node, nil, &got)
	return got.Ports, err
}

// NodeIDs lists all nodes, page by page.
func (i nodes) NodeIDs() ([]string, error) {
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
func (i nodes) Wipe() {
	i.test.Helper()
	ids, err := i.NodeIDs()
	if err != nil {
		i.test.Fatalf("wipe Ironic: %v", err)
	}
	if err := httpapi.Parallel(len(ids), IronicWidth, func(k int) error { return i.Delete(ids[k]) }); err != nil {
		i.test.Fatalf("wipe Ironic: %v", err)
	}
}

// Delete removes a node in any state: only one in maintenance can be
// deleted from every state.
func (i nodes) Delete(id string) error {
	if err := i.Insist("PUT", "/v1/nodes/"+id+"/maintenance", map[string]string{}); err != nil {
		return err
	}
	return i.Insist("DELETE", "/v1/nodes/"+id, nil)
}
