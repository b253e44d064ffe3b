package fsm

import (
	"errors"
	"fmt"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/macset"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

var portDomain = domain{
	Verbs: []entry.Verb[*txn]{
		entry.NewVerb(70, "put ports", applyPutPorts).ByLeader(),
	},
	Sections: []entry.Section[*txn]{
		entry.Many('i', "ports", func(d *txn) table.Of[Port] { return d.ports.byID }, func(d *txn, p Port) { d.ports.put(p, 0) }),
		entry.Single('I', "pull", func(d *txn) *Pull { return &d.ports.pull }),
	},
	Check: checkPorts,
}

// Bounds of the ports.
const (
	// MaxPorts is the greatest number of ports.
	MaxPorts = 200_000
	// MaxPortChanges is how many ports one entry may put and remove together.
	MaxPortChanges = 1000
)

// Port is a network port that Ironic knows: its MAC is on the blacklist, so
// that a machine in use does not boot the introspection's ramdisk.
type Port struct {
	ID   string `cbor:"1,keyasint"` // as Ironic names it: 1 to 64 of letters, digits, dot, dash, underscore
	MAC  string `cbor:"2,keyasint"` // lower case, with colons
	Node string `cbor:"3,keyasint"` // UUID in lower case
}

func (p Port) validate() error {
	if err := valid.ID("port ID", p.ID); err != nil {
		return err
	}
	if !valid.MAC(p.MAC) {
		return fmt.Errorf("port %s: %q is not a MAC in lower case", p.ID, p.MAC)
	}
	return valid.Node(p.Node)
}

// Pull is one complete reading of Ironic's ports. The zero value means that
// there was none since the cluster was founded or refounded.
type Pull struct {
	Token fencing.Token `cbor:"1,keyasint,omitempty"` // of the leadership that read
	At    Time          `cbor:"2,keyasint,omitempty"`
	Wall  int64         `cbor:"3,keyasint,omitempty"` // Unix ms; for display
	Ports int           `cbor:"4,keyasint,omitempty"` // how many there were
}

// ports holds what Ironic knows.
type ports struct {
	byID   table.Of[Port]
	denied macset.Set // the blacklist: MACs, owned by ports
	pull   Pull       // the newest complete one
}

// put stores a port by the entry at index, in the place of one of its ID.
func (p *ports) put(port Port, index uint64) {
	old, known := p.byID.Get([]byte(port.ID))
	if known && old == port {
		return
	}
	if known && old.MAC != port.MAC {
		p.denied.Remove(old.MAC, old.ID, index)
	}
	p.byID.Put([]byte(port.ID), port)
	p.denied.Add(port.MAC, port.ID, index)
}

// remove removes a port by the entry at index, if there is one of that ID.
func (p *ports) remove(id string, index uint64) {
	old, known := p.byID.Get([]byte(id))
	if !known {
		return
	}
	p.byID.Drop([]byte(id))
	p.denied.Remove(old.MAC, id, index)
}

// PutPorts tells the difference between the ports that are recorded and those
// that Ironic has: a duty's command. The same again changes nothing. A pull
// that found more than fits takes several entries, the last of which is
// Complete; one that failed leaves it out, and what it put stays.
type PutPorts struct {
	Ports  []Port   `cbor:"1,keyasint,omitempty"` // new or changed
	Remove []string `cbor:"2,keyasint,omitempty"` // IDs that Ironic has no more
	// Complete says that with this entry the ports are all those of one whole
	// pull.
	Complete bool `cbor:"3,keyasint,omitempty"`
}

// Validate implements Command.
func (c PutPorts) Validate() error {
	n := len(c.Ports) + len(c.Remove)
	if n > MaxPortChanges {
		return fmt.Errorf("%d ports are put and removed, at most %d fit into an entry; use several", n, MaxPortChanges)
	}
	if n == 0 && !c.Complete {
		return errors.New("no port is put or removed, and no pull is complete")
	}
	seen := make(map[string]bool, n)
	for _, p := range c.Ports {
		if err := p.validate(); err != nil {
			return err
		}
		seen[p.ID] = true
	}
	for _, id := range c.Remove {
		if err := valid.ID("port ID", id); err != nil {
			return err
		}
		seen[id] = true
	}
	if len(seen) < n {
		return errors.New("a port is named twice")
	}
	return nil
}

func applyPutPorts(t *txn, c PutPorts) Result {
	for _, id := range c.Remove {
		t.ports.remove(id, t.Position.Index)
	}
	for _, p := range c.Ports {
		t.ports.put(p, t.Position.Index)
	}
	n := t.ports.byID.Size()
	if n > MaxPorts {
		return entry.Refuse(TableFull, "Ironic has more than %d ports, which is the most", MaxPorts)
	}
	if c.Complete {
		t.ports.pull = Pull{Token: t.Header.Token, At: t.Now(), Wall: t.Header.WallMillis, Ports: n}
	}
	return entry.Done()
}
