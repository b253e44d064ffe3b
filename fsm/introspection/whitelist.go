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

// allow keeps the whitelist and the number of nodes that are expected to boot when a node's record
// changes by the entry at index; one that comes or goes is zero before or after.
func allow(t Txn, before, after Record, index uint64) {
	if before.boots() {
		t.nodes.booting--
	}
	if after.boots() {
		t.nodes.booting++
	}
	if before.boots() == after.boots() && before.Begun == after.Begun &&
		slices.Equal(before.Attributes.MACs, after.Attributes.MACs) {
		return
	}
	ports := t.Ports.MACsByPort(cmp.Or(before.Node, after.Node))
	for _, mac := range slices.Concat(ports, before.Attributes.MACs, after.Attributes.MACs) {
		t.Allow(mac, index)
	}
}

// Allow puts a MAC on the whitelist, or takes it off, as the records and the ports with it say after
// the entry at index. What Ironic inspects stays.
func (t Txn) Allow(mac string, index uint64) {
	owners := ownersOf(t, mac)
	for _, owner := range owners {
		t.nodes.whitelist.Add(mac, owner, index)
	}
	for _, old := range slices.Collect(t.nodes.whitelist.Owners(mac)) {
		if !slices.Contains(owners, old) && !strings.HasPrefix(old, ironicMark) {
			t.nodes.whitelist.Remove(mac, old, index)
		}
	}
}

// ownersOf returns the owners of a MAC on the whitelist: nodes that are expected to boot with it by
// their record, unless Ironic has given all ports with it to another node since their start, whose
// machine may be in use. Else it is the node that ports alone name: that of all ports with the MAC,
// if it is expected to boot. A port from before the start that the record lacks is one that Ironic did
// not name at the start: its card may be in another machine by now, which the list of ports does not
// show yet.
func ownersOf(t Txn, mac string) (owners []string) {
	node, since := t.Ports.OwnerByPort(mac)
	claims := t.NodesByMAC(mac)
	for _, claim := range claims {
		r, _ := t.Record(claim)
		moved := node != "" && node != claim && since > r.Begun
		if r.boots() && !moved {
			owners = append(owners, claim)
		}
	}
	if r, _ := t.Record(node); len(claims) == 0 && r.boots() && since > r.Begun {
		owners = append(owners, byPort(node))
	}
	return owners
}

// ForgetChanges begins the memory of what changed in the whitelist again with the present
// state.
func (t Txn) ForgetChanges() { t.nodes.whitelist.ForgetChanges(t.Position.Index) }
