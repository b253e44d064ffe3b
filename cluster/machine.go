package cluster

import (
	"time"

	"github.com/trivet-ha/trivet/fsm/membership"
)

// Machine is what a peer tells of the machine that it runs on: the same as a kubelet
// tells of its own, so that the leader finds the peers that run on kube nodes. What a
// peer cannot read is "".
type Machine struct {
	BootID     string `json:"boot_id,omitempty"` // of the kernel that runs; no two machines have one
	SystemUUID string `json:"system_uuid,omitempty"`
	MachineID  string `json:"machine_id,omitempty"` // machine-id(5)
}

// MachineOf returns what a peer last told of its machine, also when it has been silent
// since; an older version tells nothing. heard is false if it has answered no probe for
// as long as a session lasts: its next process may run on another machine.
func (c *Contacts) MachineOf(id string) (m Machine, heard bool) {
	if id == c.opts.Self {
		return c.opts.Machine, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.own[id]
	return p.report.Machine, !p.heard.IsZero() && time.Since(p.heard) <= membership.SessionTTL
}
