package membership

import (
	"fmt"
	"slices"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/table"
)

// CheckFormers says what is wrong with the former members of a new history.
func CheckFormers(survivor string, all []FormerMember) error {
	if len(all) > 0 && survivor == "" {
		return &entry.Error{Code: entry.Invalid, Message: "former members without a survivor"}
	}
	if len(all) > MaxFormer {
		message := fmt.Sprintf("%d former members, at most %d are recorded: name some lost", len(all), MaxFormer)
		return &entry.Error{Code: entry.Refused, Message: message}
	}
	for i, f := range all {
		same := func(other FormerMember) bool { return other.ID == f.ID }
		if f.ID == survivor || slices.ContainsFunc(all[:i], same) {
			message := fmt.Sprintf("former member %s is named twice or is the survivor", f.ID)
			return &entry.Error{Code: entry.Invalid, Message: message}
		}
		if err := f.validate(); err != nil {
			return &entry.Error{Code: entry.Invalid, Message: fmt.Sprintf("former member %s: %v", f.ID, err)}
		}
	}
	return nil
}

// AdmitSurvivor makes the survivor of a founding a member, if it is none.
func (t Txn) AdmitSurvivor(id string, self Member) error {
	switch {
	case id == "" || t.members.Has([]byte(id)):
		return nil
	case self.ID != id:
		return &entry.Error{Code: entry.NotFound, Message: fmt.Sprintf("peer %s is not a member of this cluster", id)}
	case t.removed.Has([]byte(id)):
		return &entry.Error{Code: entry.Conflict,
			Message: fmt.Sprintf("server ID %s is that of a removed peer and never used again", id)}
	}
	if err := self.Validate(); err != nil {
		return err
	}
	t.putMember(self)
	return nil
}

// Revoke ends all sessions, and all permissions to join.
func (t Txn) Revoke() {
	for _, session := range t.sessions.All() {
		t.endSession(session.ID)
	}
	for _, j := range t.joins.All() {
		t.dropToken(j)
	}
}

// logVersionFormers is the log version that brought former members.
const logVersionFormers = 2

// KeepOnly leaves one member, the survivor, which votes and leads against any earlier decision
// about it: there is no other. The rest are recorded as removed, and of them these are former
// members, no others are. With former members the state is one that only log version 2
// reads, so it is the survivor's at least. It is no more: a founding finalizes no upgrade.
func (t Txn) KeepOnly(survivor string, formers []FormerMember) {
	t.flags.Drop([]byte(survivor))
	m, _ := t.Member(survivor)
	m.Version = max(t.Version, 1)
	if len(formers) > 0 {
		m.Version = max(m.Version, logVersionFormers)
	}
	t.putMember(m)
	for _, m := range t.members.All() {
		if m.ID != survivor {
			t.dropMember(m.ID, t.Granted())
		}
	}
	// All of them are removed peers, also those of which the state says so already: an entry
	// that no majority had may have removed one that runs.
	t.former = table.Of[FormerMember]{}
	for _, f := range formers {
		t.remove(Member{ID: f.ID, Name: f.Name}, t.Granted())
		t.former.Put([]byte(f.ID), FormerMember{
			ID: f.ID, Name: f.Name, Address: f.Address, Gossip: f.Gossip, Observer: f.Observer, Second: f.Second,
		})
	}
}

// Adopt adds what another history of the same cluster knows of peers that were removed or may
// still run.
func (t Txn) Adopt(others Tables) {
	former := make(map[string]FormerMember) // of the other history, with the addresses of both
	for key, f := range others.former.All() {
		if other, known := t.mayRun(f.ID); known {
			f = f.With(other)
		}
		former[string(key)] = f
	}
	for key := range t.former.All() { // that the other history has settled since
		if others.removed.Has(key) && !others.former.Has(key) {
			t.former.Drop(key)
		}
	}
	for key, r := range others.removed.All() {
		t.members.Drop(key)
		t.flags.Drop(key)
		t.progress.Drop(key)
		t.putRemoved(r)
	}
	for key := range others.former.All() { // among the removed, and still waited for
		t.former.Put(key, former[string(key)])
	}
	t.Version = t.leastVersion()
}

// AdoptGossipKeys takes what another history knows of gossip keys, but for the one in use.
func (t Txn) AdoptGossipKeys(others Tables) { t.gossip = others.gossip }
