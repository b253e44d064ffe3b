package introspection

import "slices"

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

// ForgetChanges begins the memory of what changed in the whitelist again with the present
// state.
func (t Txn) ForgetChanges() { t.nodes.whitelist.ForgetChanges(t.Position.Index) }
