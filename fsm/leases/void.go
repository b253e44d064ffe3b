package leases

import (
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
)

// Revoke takes away all leases when a founding begins a new history, and keeps those that
// were held from others until their end. It ends all groups.
func (t Txn) Revoke() {
	held := t.leases
	t.leases, t.groups = table.Of[Lease]{}, groups{}
	for _, l := range held.All() {
		t.Disarm(l.Expires, dueLease, []byte(l.Name))
		t.void(l)
	}
}

// void keeps a lease from others until its end, since its holder, which does
// not learn of the founding, acts until then. Of two grants that two histories know
// the one that ends later counts.
func (t Txn) void(l Lease) {
	old, known := t.leases.Get([]byte(l.Name))
	if l.Holder == "" || !t.Version2() || known && old.Expires >= l.Expires || !known && t.leases.Size() >= MaxLeases {
		return
	}
	t.Disarm(old.Expires, dueLease, []byte(l.Name))
	l.Void, l.Client = true, ""
	loadLease(t, l)
}

// Adopt adds the leases of another history, and drops what is over by the later of both
// clocks.
func (t Txn) Adopt(others Tables) {
	for _, other := range others.leases.All() {
		t.void(other)
	}
	for key, lease := range t.leases.All() {
		if lease.Expires <= t.Now() {
			t.Disarm(lease.Expires, dueLease, key)
			t.leases.Drop(key)
		}
	}
}

// Renumber gives the values that were written after a token another version.
func (t Txn) Renumber(after, version fencing.Token) {
	for key, v := range t.values.byKey.All() {
		if v.Version > after {
			v.Version = version
			t.values.byKey.Put(key, v)
		}
	}
}
