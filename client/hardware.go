package client

import "context"

// HardwarePart is one thing that a machine is made of.
type HardwarePart struct {
	Kind  string            `json:"kind"`            // such as "disk"
	ID    string            `json:"id,omitempty"`    // a serial number, a WWN, a MAC
	Place string            `json:"place,omitempty"` // a slot, a port
	Facts map[string]string `json:"facts,omitempty"`
}

// HardwareChange is what became of a part between two inspections.
type HardwareChange struct {
	Change string       `json:"change"` // came, went, moved or changed
	Part   HardwarePart `json:"part"`
	Fact   string       `json:"fact,omitempty"`
	Was    string       `json:"was,omitempty"`
	Is     string       `json:"is,omitempty"`
	Text   string       `json:"text"` // the change in a sentence
}

// Changes are those from the inspection before to the last one.
type Changes struct {
	Compared bool             `json:"compared"` // false: one inspection alone is stored
	Changes  []HardwareChange `json:"changes"`
}

// Cable is where an interface was plugged in; "" is what was not told.
type Cable struct {
	Interface string `json:"interface"`
	MAC       string `json:"mac"`
	Link      string `json:"link"` // "yes" or "no"
	SpeedMbps string `json:"speed_mbps"`
	Switch    string `json:"switch"`
	SwitchID  string `json:"switch_id"`
	Port      string `json:"port"`
	VLAN      string `json:"vlan"`
}

// Hardware reads what nodes are made of and how they boot. Trivet alone answers this.
type Hardware struct{ c *Client }

// Hardware returns what reads the hardware of nodes.
func (c *Client) Hardware() Hardware { return Hardware{c} }

// Changes reads what changed of a node's hardware.
func (h Hardware) Changes(ctx context.Context, node string) (Changes, error) {
	return asked(ctx, h.c.endpoints, h.c.reading(nil, "nodes", node, "changes"),
		func(a Changes) bool { return a.Changes != nil })
}

// Cabling reads where a node's interfaces were plugged in at its last inspection.
func (h Hardware) Cabling(ctx context.Context, node string) ([]Cable, error) {
	return listed[Cable](ctx, h.c, "cables", "nodes", node, "cabling")
}
