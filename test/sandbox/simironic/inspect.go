package simironic

import (
	"net/http"
)

// Provision states of a node that is inspected by Ironic itself.
const (
	stateInspectWait = "inspect wait"
	// callbackMinor is the version from which on a callback may name its node;
	// before it only the oldest version has the endpoint.
	callbackMinor = 84
)

// callback is a ramdisk's document, as far as it says whose it is.
type callback struct {
	Inventory struct {
		Interfaces []struct {
			MAC string `json:"mac_address"`
		} `json:"interfaces"`
		BMC string `json:"bmc_address"`
	} `json:"inventory"`
}

// continueInspection takes the document of a node that waits for one: it is
// inspected then, and manageable at once. Whatever else is 404, as in Ironic.
func (s *Server) continueInspection(w http.ResponseWriter, r *http.Request) error {
	_, minor, err := askedVersion(r)
	if err != nil || minor != oldestMinor && minor < callbackMinor {
		return refuse(http.StatusNotFound, "API version 1.%d or newer is required", callbackMinor)
	}
	var c callback
	if err := readBody(r, &c); err != nil {
		return err
	}
	if len(c.Inventory.Interfaces) == 0 {
		return refuse(http.StatusBadRequest, "Schema error for data: 'interfaces' is a required property")
	}
	s.mu.Lock()
	n := s.waiting(c)
	if n != nil {
		n.doc = n.doc.with(map[string]any{keyProvision: stateManageable})
		n.inspected++
	}
	s.mu.Unlock()
	if n == nil {
		return refuse(http.StatusNotFound, "Resource could not be found.")
	}
	writeBody(w, http.StatusAccepted, marshal(map[string]string{"uuid": n.uuid}))
	return nil
}

// waiting finds the node that waits for a callback, under the lock: by its ports,
// or by the address of its BMC.
func (s *Server) waiting(c callback) *node {
	for _, nic := range c.Inventory.Interfaces {
		if p := s.address[nic.MAC]; p != nil && p.node.doc.text(keyProvision) == stateInspectWait {
			return p.node
		}
	}
	for _, n := range s.nodes.byID {
		info, _ := n.doc.get("driver_info")
		fields, _ := info.(map[string]any)
		if c.Inventory.BMC != "" && textOf(fields["ipmi_address"]) == c.Inventory.BMC &&
			n.doc.text(keyProvision) == stateInspectWait {
			return n
		}
	}
	return nil
}
