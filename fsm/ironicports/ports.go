// Package ironicports holds the network ports that Ironic knows, whose MACs are the blacklist
// of the PXE filter.
//
// The command: [PutPorts].
package ironicports

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/macset"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Domain is all that the log, snapshots and Check know of ports.
var Domain = entry.Domain[Txn]{
	Verbs: []entry.Verb[Txn]{
		entry.NewVerb[Txn, PutPorts](70, "put ports").ByLeader(),
	},
	Sections: []entry.Section[Txn]{
		entry.Many('i', "ports", func(t Txn) table.Of[recorded] { return t.byID }, func(t Txn, p recorded) { t.store(p, 0) }),
		entry.Single('I', "pull", func(t Txn) *Pull { return &t.pull }),
	},
	Checks: entry.Checks[Txn]{checkPorts},
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

// recorded is a port in the state. In the log it stands among the keys of the port.
type recorded struct {
	Port
	// Since is the token of the entry that gave the node a port of this ID and MAC; zero: it came before
	// log version 3 was in force.
	Since fencing.Token `cbor:"4,keyasint,omitempty"`
}

// logVersionSince is the log version that brought recorded.Since: peers of an older one, which apply the
// same entries, do not know it.
const logVersionSince = 3

// nodeKey orders by node, then by ID. UUIDs are of one length.
func (p Port) nodeKey() []byte { return append([]byte(p.Node), p.ID...) }

// Pull is one complete reading of Ironic's ports. The zero value means that
// there was none since the cluster was founded or refounded.
type Pull struct {
	Token fencing.Token `cbor:"1,keyasint,omitempty"` // of the leadership that read
	At    entry.Time    `cbor:"2,keyasint,omitempty"`
	Wall  int64         `cbor:"3,keyasint,omitempty"` // Unix ms; for display
	Ports int           `cbor:"4,keyasint,omitempty"` // how many there were
}

// Tables hold what Ironic knows.
type Tables struct {
	byID   table.Of[recorded]
	byNode table.Of[table.None] // node, ID
	denied macset.Set           // the blacklist: MACs, owned by ports
	pull   Pull                 // the newest complete one
}

// Txn is one entry at work on the ports.
type Txn struct {
	*entry.Txn
	*Tables
	// Moved is told each MAC that a port has got or lost by the entry at index, also where
	// another node has it now.
	Moved func(mac string, index uint64)
}

// put stores a port that Ironic shows, in the place of one of its ID. The same again is as old as it was.
func (t Txn) put(port Port) {
	if old, known := t.byID.Get([]byte(port.ID)); known && old.Port == port {
		return
	}
	now := recorded{Port: port}
	if t.Version >= logVersionSince {
		now.Since = t.Token
	}
	t.store(now, t.Position.Index)
}

// store keeps a port by the entry at index, in the place of one of its ID.
func (t Txn) store(port recorded, index uint64) {
	old, known := t.byID.Get([]byte(port.ID))
	if known {
		t.byNode.Drop(old.nodeKey())
	}
	if known && old.MAC != port.MAC {
		t.denied.Remove(old.MAC, old.ID, index)
	}
	t.byID.Put([]byte(port.ID), port)
	t.byNode.Put(port.nodeKey(), table.None{})
	t.denied.Add(port.MAC, port.ID, index)
	if known && old.MAC != port.MAC {
		t.Moved(old.MAC, index)
	}
	t.Moved(port.MAC, index)
}

// remove removes a port by the entry at index, if there is one of that ID.
func (t Txn) remove(id string, index uint64) {
	old, known := t.byID.Get([]byte(id))
	if !known {
		return
	}
	t.byID.Drop([]byte(id))
	t.byNode.Drop(old.nodeKey())
	t.denied.Remove(old.MAC, id, index)
	t.Moved(old.MAC, index)
}

// PutPorts tells the difference between the ports that are recorded and those
// that Ironic has: a duty's command. The same again changes nothing. A pull
// that found more than fits takes several entries, the last of which is
// Complete; one that failed leaves it out, and what it put stays.
type PutPorts struct {
	Ports  []Port   `cbor:"1,keyasint,omitempty"` // new or changed
	Remove []string `cbor:"2,keyasint,omitempty"` // IDs that Ironic has no more
	// Complete says that with this entry the ports are all those of one whole
	// pull, and those that a doubted pull lacks (docs/design.md#sync).
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
	ids := slices.Clone(c.Remove)
	for _, p := range c.Ports {
		ids = append(ids, p.ID)
	}
	return cmp.Or(valid.Each(c.Ports, Port.validate),
		valid.Each(c.Remove, func(id string) error { return valid.ID("port ID", id) }), valid.Once("a port", ids))
}

// Apply implements entry.Change.
func (c PutPorts) Apply(t Txn) entry.Result {
	for _, id := range c.Remove {
		t.remove(id, t.Position.Index)
	}
	for _, p := range c.Ports {
		t.put(p)
	}
	n := t.byID.Size()
	if n > MaxPorts {
		return entry.Refuse(entry.TableFull, "Ironic has more than %d ports, which is the most", MaxPorts)
	}
	if c.Complete {
		t.pull = Pull{Token: t.Header.Token, At: t.Now(), Wall: t.Header.WallMillis, Ports: n}
	}
	return entry.Done()
}

// ForgetPull takes back that the ports are all those of one pull: after a founding they
// may be of long ago.
func (t Txn) ForgetPull() { t.pull = Pull{} }

// ForgetChanges begins the memory of what changed on the blacklist again with the present
// state.
func (t Txn) ForgetChanges() { t.denied.ForgetChanges(t.Position.Index) }

func checkPorts(t Txn, p *valid.Problems) {
	p.Want(t.byID.Size() <= MaxPorts, "%d ports", t.byID.Size())
	for key, port := range t.byID.All() {
		p.Want(string(key) == port.ID, "port %s is filed under %q", port.ID, key)
		p.Invalid(port.validate(), "")
		p.Want(port.Since <= t.Granted(), "port %s came by entry %v, which is to come", port.ID, port.Since)
		p.Want(t.denied.Keeps(port.MAC, port.ID), "port %s is missing from the blacklist", port.ID)
		p.Want(t.byNode.Has(port.nodeKey()), "port %s is missing from node %s", port.ID, port.Node)
	}
	p.Want(t.byNode.Size() == t.byID.Size(), "%d ports, %d of nodes", t.byID.Size(), t.byNode.Size())
	t.denied.Check(p, "blacklist", t.byID.Size(), t.Position.Index)
	pull := t.pull
	p.Want(!pull.Token.IsZero() || pull == Pull{}, "a pull under no token: %+v", pull)
	p.Want(pull.Token <= t.Position.Floor, "the pull is of leadership %v, which never was", pull.Token)
	p.Want(0 <= pull.At && pull.At <= t.Now() && 0 <= pull.Ports && pull.Ports <= MaxPorts, "a pull of %d ports at %v",
		pull.Ports, pull.At)
}
