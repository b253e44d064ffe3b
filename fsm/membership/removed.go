package membership

import (
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
)

// MaxRemoved bounds the removed peers that are remembered. Beyond it the oldest
// is forgotten: its certificate is then one of an unknown peer, which every
// member that hears a leader refuses as well.
const MaxRemoved = 4096

// RemovedPeer is a peer that was a member once. Its server ID never becomes a
// member again: its certificate is valid for longer and must open nothing.
type RemovedPeer struct {
	ID   string `cbor:"1,keyasint"`           // server ID
	Name string `cbor:"2,keyasint,omitempty"` // of the host; for display
	// of the entry that removed it, or of the newest one before a recovery
	At fencing.Token `cbor:"3,keyasint"`
}

// remove records a removal, in a cluster whose members all know the table. A
// full table forgets its oldest record: a removal must never be refused.
func (t Txn) remove(m Member, at fencing.Token) {
	if !t.Version2() {
		return
	}
	t.putRemoved(RemovedPeer{ID: m.ID, Name: m.Name, At: at})
}

func (t Txn) putRemoved(r RemovedPeer) {
	if t.removed.Size() >= MaxRemoved {
		// The record with the least token makes room, of several the first ID. A former member's is not forgotten.
		var oldest string
		var least fencing.Token
		for _, old := range t.removed.All() { // at most MaxRemoved
			if (oldest == "" || old.At < least) && !t.former.Has([]byte(old.ID)) {
				oldest, least = old.ID, old.At
			}
		}
		t.removed.Drop([]byte(oldest))
	}
	t.removed.Put([]byte(r.ID), r)
}

// Removed returns the record of a removed peer, by its server ID.
func (s *Tables) Removed(id string) (RemovedPeer, bool) { return s.removed.Get([]byte(id)) }

// RemovedPeers returns the removed peers in the order of their IDs.
func (s *Tables) RemovedPeers() []RemovedPeer { return table.List(s.removed.All()) }

// SameRemoved says that no removed peer has changed since one was a copy of the other. It
// may fail to say so of tables that were read from snapshots.
func SameRemoved(a, b *Tables) bool { return a.removed.Same(b.removed) }
