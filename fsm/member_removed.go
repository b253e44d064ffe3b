package fsm

import (
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

var removedDomain = domain{
	Sections: []entry.Section[*txn]{
		entry.Many('X', "removed peers", func(d *txn) table.Of[RemovedPeer] { return d.peers.removed },
			func(d *txn, r RemovedPeer) { d.peers.removed.Put([]byte(r.ID), r) }),
	},
	Check: func(d *txn, p *valid.Problems) {
		p.Want(d.peers.removed.Size() <= MaxRemoved, "%d removed peers", d.peers.removed.Size())
		for key, r := range d.peers.removed.All() {
			p.Want(string(key) == r.ID && r.ID != "", "removed peer %s is filed under %q", r.ID, key)
			p.Want(r.At <= d.shared.Granted(), "peer %s was removed by token %v, which is to come", r.ID, r.At)
			p.Want(!d.peers.members.Has(key), "peer %s is a member and was removed", r.ID)
		}
	},
}

// MaxRemoved bounds the removed peers that are remembered. Beyond it the oldest
// is forgotten: its certificate is then one of an unknown peer, which every
// member that hears a leader refuses as well.
const MaxRemoved = 4096

// RemovedPeer is a peer that was a member once. Its server ID never becomes a
// member again: its certificate is valid for longer and must open nothing.
type RemovedPeer struct {
	ID   string        `cbor:"1,keyasint"`           // server ID
	Name string        `cbor:"2,keyasint,omitempty"` // of the host; for display
	At   fencing.Token `cbor:"3,keyasint"`           // of the entry that removed it, or of the newest one before a recovery
}

// remove records a removal, in a cluster whose members all know the table. A
// full table forgets its oldest record: a removal must never be refused.
func (d *data) remove(m Member, at fencing.Token) {
	if !d.shared.Version2() {
		return
	}
	p := &d.peers
	if p.removed.Size() >= MaxRemoved {
		p.removed.Drop([]byte(p.oldestRemoval()))
	}
	p.removed.Put([]byte(m.ID), RemovedPeer{ID: m.ID, Name: m.Name, At: at})
}

// oldestRemoval returns the server ID of the record with the least token, of
// several the first ID. A former member's is not forgotten.
func (p *peers) oldestRemoval() (id string) {
	var least fencing.Token
	for _, r := range p.removed.All() { // at most MaxRemoved
		if (id == "" || r.At < least) && !p.former.Has([]byte(r.ID)) {
			id, least = r.ID, r.At
		}
	}
	return id
}

// Removed returns the record of a removed peer, by its server ID.
func (v View) Removed(id string) (RemovedPeer, bool) { return v.data.peers.removed.Get([]byte(id)) }

// RemovedPeers returns the removed peers in the order of their IDs.
func (v View) RemovedPeers() []RemovedPeer { return table.List(v.data.peers.removed.All()) }

// SameRights reports whether two views refuse the same certificates: those of
// removed peers and of revoked operators. It compares pointers, so that it may
// say no where nothing has changed.
func (v View) SameRights(other View) bool {
	return v.data.peers.removed.Same(other.data.peers.removed) && v.data.operators.Same(other.data.operators)
}
