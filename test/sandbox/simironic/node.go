package simironic

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Provision states that nodes take here.
const (
	stateEnroll     = "enroll"
	stateManageable = "manageable"
)

// Power states, and the targets that lead to them.
const (
	powerOn      = "power on"
	powerOff     = "power off"
	powerReboot  = "rebooting"
	softOff      = "soft power off"
	softReboot   = "soft rebooting"
	conductor    = "simironic"
	keyPower     = "power_state"
	keyTarget    = "target_power_state"
	keyProvision = "provision_state"
	keyHeld      = "reservation"
)

// node is one machine.
type node struct {
	uuid    string
	created int // order of creation
	doc     document

	traits   []string
	ports    []*port
	powerOns int

	inspected int // callbacks that were taken
}

func (n *node) id() string { return n.uuid }
func (n *node) order() int { return n.created }

// locked refuses what a power change under way excludes.
func (n *node) locked() error {
	if n.doc.text(keyHeld) != "" {
		return refuse(http.StatusConflict,
			"Node %s is locked by host %s, please retry after the current operation is completed.", n.uuid, conductor)
	}
	return nil
}

// fixed are the attributes that a PATCH may not change.
func fixed() []string {
	return []string{"uuid", keyPower, keyTarget, keyProvision, "target_provision_state", keyHeld, "last_error", "traits",
		"maintenance_reason"}
}

// blank is a node of which nothing was said.
func blank() map[string]any {
	return map[string]any{
		"uuid": nil, "name": nil, "driver": "fake-hardware", "driver_info": map[string]any{}, "properties": map[string]any{},
		"extra": map[string]any{}, "instance_info": map[string]any{}, "instance_uuid": nil, "resource_class": nil,
		"description": nil, "owner": nil, "lessee": nil, "conductor_group": "", "maintenance": false,
		"maintenance_reason": nil,
		"inspect_interface":  "no-inspect", "console_enabled": false, "automated_clean": nil, "protected": false,
		"retired":    false,
		keyProvision: stateEnroll, "target_provision_state": nil, keyPower: powerOff, keyTarget: nil,
		keyHeld: nil, "last_error": nil, "traits": []any{},
	}
}

// Enrolment describes a node that is there from the beginning.
type Enrolment struct {
	UUID  string // lower case
	Name  string // "" for none
	BMC   string // becomes driver_info.ipmi_address; "" for none
	MACs  []string
	State string // provision state; "" is manageable
}

// Enroll adds a node that is switched off, and its ports. A UUID, name or MAC
// that is there already is an error, and nothing is added.
func (s *Server) Enroll(e Enrolment) error {
	doc := blank()
	doc["uuid"] = e.UUID
	if e.Name != "" {
		doc["name"] = e.Name
	}
	if e.BMC != "" {
		doc["driver_info"] = map[string]any{"ipmi_address": e.BMC}
	}
	doc[keyProvision] = stateManageable
	if e.State != "" {
		doc[keyProvision] = e.State
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, mac := range e.MACs {
		if s.address[mac] != nil || slices.Contains(e.MACs[:i], mac) {
			return fmt.Errorf("enroll node %s: %w", e.UUID, portExists(mac))
		}
	}
	n, err := s.addNode(doc)
	if err != nil {
		return fmt.Errorf("enroll node %s: %w", e.UUID, err)
	}
	for _, mac := range e.MACs {
		s.addPort(n, portOf(n, mac))
	}
	return nil
}

// addNode adds a node under the lock.
func (s *Server) addNode(doc map[string]any) (*node, error) {
	uuid, name := textOf(doc["uuid"]), textOf(doc["name"])
	if s.nodes.byID[uuid] != nil {
		return nil, refuse(http.StatusConflict, "A node with UUID %s already exists.", uuid)
	}
	if s.names[name] != nil {
		return nil, nameTaken(name)
	}
	n := &node{uuid: uuid, created: s.nodes.reserve(), doc: newDocument(doc)}
	s.nodes.add(n)
	if name != "" {
		s.names[name] = n
	}
	return n, nil
}

func nameTaken(name string) error {
	return refuse(http.StatusConflict, "A node with name %s already exists.", name)
}

// find returns the node with this UUID or name, under the lock.
func (s *Server) find(ref string) (*node, error) {
	if n := s.nodes.byID[ref]; n != nil {
		return n, nil
	}
	if n := s.names[ref]; n != nil {
		return n, nil
	}
	if n := s.nodes.byID[strings.ToLower(ref)]; n != nil {
		return n, nil
	}
	return nil, noNode(ref)
}

// Node is what a test or a demonstration asks about a node.
type Node struct {
	Provision  string          `json:"provision_state"`
	Power      string          `json:"power_state"`
	Properties json.RawMessage `json:"properties"`
	Extra      json.RawMessage `json:"extra"`
	PowerOns   int             `json:"-"` // how often it was switched on or rebooted
	MACs       []string        `json:"-"` // of its ports, oldest first
	Inspected  int             `json:"-"` // how many callbacks of its ramdisk were taken
}

// Look returns a node as it is at this moment; ok is false if there is none.
func (s *Server) Look(ref string) (out Node, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n, err := s.find(ref)
	if err != nil {
		return Node{}, false
	}
	if err := json.Unmarshal(n.doc.encoded, &out); err != nil {
		return Node{}, false
	}
	out.PowerOns, out.Inspected = n.powerOns, n.inspected
	for _, p := range n.ports {
		out.MACs = append(out.MACs, p.doc.text("address"))
	}
	return out, true
}
