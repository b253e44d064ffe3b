package introspection

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Bounds of what Ironic inspects itself.
const (
	// MaxInspectedChanges is how many nodes one entry may put and remove together.
	MaxInspectedChanges = 200
	// MaxInspectedMACs is how many MACs one of them may have.
	MaxInspectedMACs = 256
)

// Inspected is a node that Ironic itself inspects, without an introspection
// here: its machine is expected to boot for as long as Ironic says so.
type Inspected struct {
	Node string   `cbor:"1,keyasint"`           // UUID in lower case
	MACs []string `cbor:"2,keyasint,omitempty"` // of its ports, sorted, each once
	// Since is the entry that recorded this inspection, by which it is told from the one before;
	// no command brings it. Since log version 3.
	Since fencing.Token `cbor:"3,keyasint,omitempty"`
	// After is the newest entry that was applied when Ironic was asked and did not inspect the
	// node: this inspection began later. Zero: it was not asked before that began, as when Ironic was
	// away. Since log version InspectedAfterSince.
	After fencing.Token `cbor:"4,keyasint,omitempty"`
}

func (i Inspected) validate() error {
	if len(i.MACs) > MaxInspectedMACs {
		return fmt.Errorf("node %s has %d MACs, at most %d are kept", i.Node, len(i.MACs), MaxInspectedMACs)
	}
	for n, mac := range i.MACs {
		if !valid.MAC(mac) {
			return fmt.Errorf("node %s: %q is not a MAC in lower case", i.Node, mac)
		}
		if n > 0 && i.MACs[n-1] >= mac {
			return fmt.Errorf("node %s: the MACs are not sorted, or %s is there twice", i.Node, mac)
		}
	}
	return valid.Node(i.Node)
}

// byIronic makes the owner of a MAC on the whitelist of a node that Ironic
// inspects: the same node may have an introspection here, too.
func byIronic(node string) string { return ironicMark + node }

const ironicMark = "ironic:"

// InspectedAfterSince is the log version that brought Inspected.After.
const InspectedAfterSince = 3

// PutInspected tells the difference between the nodes that are recorded as
// inspected by Ironic itself and those that are: a duty's command. The same
// again changes nothing.
type PutInspected struct {
	Nodes  []Inspected `cbor:"1,keyasint,omitempty"` // new, or with other MACs
	Remove []string    `cbor:"2,keyasint,omitempty"` // nodes that it inspects no more
}

// Since is the log version that a member must know to read the command.
func (c PutInspected) Since() int {
	after := slices.ContainsFunc(c.Nodes, func(i Inspected) bool { return !i.After.IsZero() })
	return entry.SinceField(after, InspectedAfterSince)
}

// Validate implements Command.
func (c PutInspected) Validate() error {
	if err := valid.Count(len(c.Nodes)+len(c.Remove), MaxInspectedChanges, "nodes are put and removed"); err != nil {
		return err
	}
	names := slices.Clone(c.Remove)
	for _, i := range c.Nodes {
		if err := i.validate(); err != nil {
			return err
		}
		if !i.Since.IsZero() {
			return fmt.Errorf("node %s is inspected since entry %v, which its own entry decides", i.Node, i.Since)
		}
		names = append(names, i.Node)
	}
	return cmp.Or(valid.Each(c.Remove, valid.Node), valid.Once("a node", names))
}

// Apply implements entry.Change.
func (c PutInspected) Apply(t Txn) entry.Result {
	for _, node := range c.Remove {
		t.nodes.inspect(Inspected{Node: node}, false, t.Position.Index)
	}
	for _, i := range c.Nodes {
		before, known := t.Inspected(i.Node)
		switch {
		case known:
			i.Since, i.After = before.Since, before.After
		case t.Version >= logVersionEarlier:
			i.Since = t.Token
		default: // an older peer would keep neither
			i.After = 0
		}
		t.nodes.inspect(i, true, t.Position.Index)
	}
	if t.nodes.inspected.Size() > MaxNodes {
		return entry.Refuse(entry.TableFull, "Ironic inspects more than %d nodes, which is the most", MaxNodes)
	}
	return entry.Done()
}

// inspect records whether Ironic inspects a node, by the entry at index.
func (n *nodes) inspect(now Inspected, does bool, index uint64) {
	key := []byte(now.Node)
	before, _ := n.inspected.Get(key)
	for _, mac := range before.MACs {
		if !slices.Contains(now.MACs, mac) {
			n.whitelist.Remove(mac, byIronic(now.Node), index)
		}
	}
	for _, mac := range now.MACs {
		if !slices.Contains(before.MACs, mac) {
			n.whitelist.Add(mac, byIronic(now.Node), index)
		}
	}
	if does {
		n.inspected.Put(key, now)
		return
	}
	n.inspected.Drop(key)
}

// Inspected returns what is recorded of a node that Ironic itself inspects; ok is
// false if it does not.
func (s *Tables) Inspected(node string) (i Inspected, ok bool) {
	return s.nodes.inspected.Get([]byte(node))
}

// InspectedNodes returns the nodes that Ironic itself inspects, in order.
func (s *Tables) InspectedNodes() []Inspected {
	return slices.AppendSeq(make([]Inspected, 0, s.nodes.inspected.Size()), table.Values(s.nodes.inspected.All()))
}

// InspectedByMAC returns the nodes with a MAC that Ironic itself inspects, in
// order.
func (s *Tables) InspectedByMAC(mac string) []string {
	var nodes []string
	for owner := range s.nodes.whitelist.Owners(mac) {
		if node, does := strings.CutPrefix(owner, ironicMark); does {
			nodes = append(nodes, node)
		}
	}
	return nodes
}
