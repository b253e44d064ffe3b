package membership

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// MaxFormer bounds the former members: the members of two histories, that of a
// backup and that of the host on which it was restored.
const MaxFormer = 2 * MaxMembers

// FormerMember is a member of the history before a founding (Refound of package fsm)
// that was not named lost: its peer may still run, or come back. It is a removed
// peer like any other, its certificate opens nothing, but its host may rejoin:
// once, by proof of the old certificate's key. Until every former member was
// heard under the present leadership, no door opens: while no leader asked, the old
// peers may have started, elected a leader of their own and opened.
type FormerMember struct {
	ID      string `cbor:"1,keyasint"` // server ID that it had
	Name    string `cbor:"2,keyasint"`
	Address string `cbor:"3,keyasint"`           // host:port of the peers' port
	Gossip  string `cbor:"4,keyasint,omitempty"` // host:port
	// Observer says that it was one; it rejoins as one.
	Observer bool `cbor:"5,keyasint,omitempty"`
	// Heard says that its host was heard as stopped, or as of this incarnation,
	// under the present leadership.
	Heard bool `cbor:"6,keyasint,omitempty"`
	// Became is the server ID that its host got when it rejoined. The record stays
	// until that member opens a session: a host that did not get the answer asks
	// again, with the same key, and gets the same ID.
	Became string   `cbor:"7,keyasint,omitempty"`
	Key    [32]byte `cbor:"8,keyasint,omitzero"` // SHA-256 of the new public key
	// Second is the host:port of the peers' port that another of two histories
	// names, "" if both name Address: which of them is the later one cannot be known.
	Second string `cbor:"9,keyasint,omitempty"`
}

// With returns the record with the address that another history names for the same
// peer. Where these are more than two, the first and the second stay.
func (f FormerMember) With(other FormerMember) FormerMember {
	for _, address := range other.Addresses() {
		if f.Second == "" && address != f.Address {
			f.Second = address
		}
	}
	return f
}

// Addresses returns the addresses of the peers' port, at each of which the peer may be.
func (f FormerMember) Addresses() []string {
	if f.Second == "" {
		return []string{f.Address}
	}
	return []string{f.Address, f.Second}
}

// without returns the record without an address; Address is "" if none is left.
func (f FormerMember) without(address string) FormerMember {
	switch address {
	case f.Address:
		f.Address, f.Second = f.Second, ""
	case f.Second:
		f.Second = ""
	}
	return f
}

// String names the host, for people.
func (f FormerMember) String() string { return fmt.Sprintf("%s (%s)", f.Name, f.Address) }

func (f FormerMember) validate() error {
	return valid.Each(f.Addresses(), func(address string) error {
		return Member{ID: f.ID, Name: f.Name, Address: address, Gossip: f.Gossip, Version: 1}.Validate()
	})
}

// FormerHeard records what the host of a former member answered to the leader: a
// duty's command. The same again is a success.
type FormerHeard struct {
	ID string `cbor:"1,keyasint"` // server ID
	// Running says that its peer runs in the earlier incarnation. Otherwise the
	// host was heard as stopped, or as of this incarnation.
	Running bool `cbor:"2,keyasint,omitempty"`
}

// Validate implements Command.
func (c FormerHeard) Validate() error { return valid.ID("server ID", c.ID) }

// Apply implements entry.Change.
func (c FormerHeard) Apply(t Txn) entry.Result {
	f, ok := t.former.Get([]byte(c.ID))
	if !ok {
		return entry.Refuse(entry.NotFound, "peer %s is not a former member that is waited for", c.ID)
	}
	if c.Running {
		t.unhear(f)
	} else {
		t.hear(f)
	}
	return entry.Done()
}

// hear records that a former member was heard. What its kernel keeps open it may
// have kept open until now, so an unknown door is waited for from now on.
func (t Txn) hear(f FormerMember) {
	if f.Heard {
		return
	}
	f.Heard = true
	t.former.Put([]byte(f.ID), f)
	t.Doors.FormerHeard()
}

// unhear takes back that a former member was heard. What the present leadership has
// open stays open: the peer that runs has the order to stop, and closing would not
// make it stop sooner.
func (t Txn) unhear(f FormerMember) {
	f.Heard = false
	t.former.Put([]byte(f.ID), f)
	t.Doors.FormerDoubted()
}

// UnhearAll makes a leadership that begins hear every former member itself. One
// that was admitted again counts too until its new peer has opened a session: if its
// host died before the answer was on its disk, the old peer may have been started.
func (t Txn) UnhearAll() {
	for _, f := range t.former.All() { // at most MaxFormer
		t.unhear(f)
	}
}

// Rejoin admits the host of a former member under a new server ID, once: the
// proposing peer has verified that the host holds the key of the former member's
// certificate. The same again, with the same key and member, only says that the
// host was heard: who asks holds the lock of the old peer's data directory, so that
// this peer does not run.
type Rejoin struct {
	Former string   `cbor:"1,keyasint"` // server ID
	Member Member   `cbor:"2,keyasint"` // with the former member's name and one of its addresses
	Key    [32]byte `cbor:"3,keyasint"` // SHA-256 of the new public key
}

// Validate implements Command.
func (c Rejoin) Validate() error {
	if c.Key == [32]byte{} {
		return errors.New("no hash of the new public key")
	}
	return cmp.Or(valid.ID("server ID", c.Former), c.Member.Validate())
}

// Apply implements entry.Change.
func (c Rejoin) Apply(t Txn) entry.Result {
	f, ok := t.former.Get([]byte(c.Former))
	switch {
	case !ok:
		return entry.Refuse(entry.Refused, "peer %s may not rejoin: it was named lost, was removed, or has rejoined",
			c.Former)
	case f.Became == c.Member.ID && f.Key == c.Key:
		t.hear(f)
		return entry.Done()
	case f.Became != "":
		return entry.Refuse(entry.Conflict, "peer %s has rejoined as %s, with another key", c.Former, f.Became)
	case c.Member.Name != f.Name || !slices.Contains(f.Addresses(), c.Member.Address):
		return entry.Refuse(entry.Refused, "peer %s was %s at %s and rejoins as that, not as %s at %s", c.Former, f.Name,
			f.Address, c.Member.Name, c.Member.Address)
	}
	for _, m := range t.members.All() {
		if m.ID == c.Member.ID || m.Name == f.Name || m.Address == c.Member.Address {
			return entry.Refuse(entry.Conflict, "peer %s (%s at %s) has this ID, name or address", m.ID, m.Name, m.Address)
		}
	}
	if res := t.Admit(c.Member); res.Code != entry.OK {
		return res
	}
	if f.Observer {
		t.putMemberFlags(t.MemberFlags(c.Member.ID).withExclusion(FromVoting, true, 0))
	}
	t.hear(f)
	f.Heard, f.Became, f.Key = true, c.Member.ID, c.Key
	t.former.Put([]byte(f.ID), f)
	return entry.Done()
}

// forgetFormer drops the former members that match: they were named lost, or have
// rejoined. Their IDs stay those of removed peers. It reports whether there were any.
func (t Txn) forgetFormer(match func(FormerMember) bool) (found bool) {
	for key, f := range t.former.All() { // at most MaxFormer
		if match(f) {
			t.hear(f)
			t.former.Drop(key)
			found = true
		}
	}
	return found
}

// displaceFormers takes out of the records of former members what a joiner by token
// disproves: its host has its address, so none of them is there any more. A former member
// ends that was nowhere else, or has the joiner's name too: its host was wiped. One
// of another name that two histories place at two addresses may run at the other
// one. The name alone says nothing: another host may take it over while the one that
// had it runs on.
func (t Txn) displaceFormers(m Member) {
	for key, f := range t.former.All() { // at most MaxFormer
		rest := f.without(m.Address)
		switch {
		case rest == f:
		case rest.Address == "" || f.Name == m.Name:
			t.hear(f)
			t.former.Drop(key)
		default:
			t.former.Put(key, rest)
		}
	}
}

// unsettleFormer takes back that a former member rejoined as a member whose place a
// joiner takes before its first session: the old peer may still run.
func (t Txn) unsettleFormer(became string) {
	for key, f := range t.former.All() { // at most MaxFormer
		if f.Became == became {
			f.Became, f.Key = "", [32]byte{}
			t.former.Put(key, f)
		}
	}
}
