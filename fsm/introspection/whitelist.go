package introspection

import (
	"cmp"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// Ports are those that Ironic has.
type Ports interface {
	// MACsByPort returns the MACs of a node's ports.
	MACsByPort(node string) []string
	// OwnerByPort returns the node that all ports with a MAC are of, "" if there is none, and the
	// token of the entry that gave it the newest of them.
	OwnerByPort(mac string) (node string, since fencing.Token)
}

// byPort makes the owner of a MAC on the whitelist that a port of the node has and no
// record: the port came after the start.
func byPort(node string) string { return portMark + node }

const portMark = "port:"

// boots reports whether the node is expected to boot: from the acceptance of its
// introspection to its end, of any kind. So does the original, which keeps a MAC
// whitelisted while its ramdisk works and while an abort is under way: a ramdisk
// renews its address. Stored data is reapplied to a machine that does not boot.
func (r Record) boots() bool { return r.State.Active() && r.State != NodeReapplying }

// allowed returns the record's MACs on the whitelist.
func (r Record) allowed() []string {
	if !r.boots() {
		return nil
	}
	return r.Attributes.MACs
}

// allow keeps the whitelist when a node's record changes by the entry at index;
// one that comes or goes is zero before or after.
func (n *nodes) allow(before, after Record, index uint64) {
	if before.boots() {
		n.booting--
	}
	if after.boots() {
		n.booting++
	}
	lost, won := before.allowed(), after.allowed()
	if slices.Equal(lost, won) {
		return
	}
	for _, mac := range lost {
		if !slices.Contains(won, mac) {
			n.whitelist.Remove(mac, before.Node, index)
		}
	}
	for _, mac := range won {
		if !slices.Contains(lost, mac) {
			n.whitelist.Add(mac, after.Node, index)
		}
	}
}

// allow keeps the whitelist, as to what the record says and what the ports of its node do.
func allow(t Txn, before, after Record, index uint64) {
	t.nodes.allow(before, after, index)
	if before.boots() == after.boots() && before.Begun == after.Begun &&
		slices.Equal(before.Attributes.MACs, after.Attributes.MACs) {
		return
	}
	ports := t.Ports.MACsByPort(cmp.Or(before.Node, after.Node))
	for _, mac := range slices.Concat(ports, before.Attributes.MACs, after.Attributes.MACs) {
		t.AllowByPort(mac, index)
	}
}

// AllowByPort puts a MAC on the whitelist, or takes it off, as the ports with it say after the
// entry at index.
func (t Txn) AllowByPort(mac string, index uint64) {
	owner := ownerByPort(t, mac)
	if owner != "" {
		t.nodes.whitelist.Add(mac, owner, index)
	}
	for _, old := range slices.Collect(t.nodes.whitelist.Owners(mac)) {
		if old != owner && strings.HasPrefix(old, portMark) {
			t.nodes.whitelist.Remove(mac, old, index)
		}
	}
}

// ownerByPort returns the owner of a MAC on the whitelist that ports alone name, "" if they let
// nothing in: the machine may be in use unless all ports with the MAC are of one node, that node
// is expected to boot, and no record claims the MAC. What the node's own record claims is on the
// list by that. A port from before the start that the record lacks is one that Ironic did not name
// at the start: its card may be in another machine by now, which the list of ports does not show yet.
func ownerByPort(t Txn, mac string) string {
	node, since := t.Ports.OwnerByPort(mac)
	if r, _ := t.Record(node); r.boots() && since > r.Begun && len(t.NodesByMAC(mac)) == 0 {
		return byPort(node)
	}
	return ""
}

// ForgetChanges begins the memory of what changed in the whitelist again with the present
// state.
func (t Txn) ForgetChanges() { t.nodes.whitelist.ForgetChanges(t.Position.Index) }
