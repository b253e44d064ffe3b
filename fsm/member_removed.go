package fsm

import "github.com/trivet-ha/trivet/fsm/fencing"

var removedDomain = domain{
	sections: []section{
		many('X', "removed peers", func(d *data) table[RemovedPeer] { return d.peers.removed },
			func(d *data, r RemovedPeer) { d.peers.removed.put([]byte(r.ID), r) }),
	},
	check: checkRemoved,
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

// remember records a removal, in a cluster whose members all know the table. A
// full table forgets its oldest record: a removal must never be refused.
func (p *peers) remember(m Member, at fencing.Token) {
	if !p.version2() {
		return
	}
	if p.removed.size() >= MaxRemoved {
		p.removed.drop([]byte(p.oldestRemoval()))
	}
	p.removed.put([]byte(m.ID), RemovedPeer{ID: m.ID, Name: m.Name, At: at})
}

// oldestRemoval returns the server ID of the record with the least token, of
// several the first ID. A former member's is not forgotten.
func (p *peers) oldestRemoval() (id string) {
	var least fencing.Token
	for _, r := range p.removed.all() { // at most MaxRemoved
		if (id == "" || r.At < least) && !p.former.has([]byte(r.ID)) {
			id, least = r.ID, r.At
		}
	}
	return id
}

// Removed returns the record of a removed peer, by its server ID.
func (v View) Removed(id string) (RemovedPeer, bool) { return v.d.peers.removed.get([]byte(id)) }

// RemovedPeers returns the removed peers in the order of their IDs.
func (v View) RemovedPeers() []RemovedPeer { return values(v.d.peers.removed.all()) }

// SameRights reports whether two views refuse the same certificates: those of
// removed peers and of revoked operators. It compares pointers, so that it may
// say no where nothing has changed.
func (v View) SameRights(other View) bool {
	return v.d.peers.removed.tree == other.d.peers.removed.tree && v.d.operators.tree == other.d.operators.tree
}

func checkRemoved(d *data, p *problems) {
	p.want(d.peers.removed.size() <= MaxRemoved, "%d removed peers", d.peers.removed.size())
	for key, r := range d.peers.removed.all() {
		p.want(string(key) == r.ID && r.ID != "", "removed peer %s is filed under %q", r.ID, key)
		p.want(r.At <= d.granted(), "peer %s was removed by token %v, which is to come", r.ID, r.At)
		p.want(!d.peers.members.has(key), "peer %s is a member and was removed", r.ID)
	}
}
