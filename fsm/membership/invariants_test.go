package membership

import (
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/test/domaintest"
)

// Check finds the contradictions that a fault of a verb could leave.
func TestCheckFindsContradictions(t *testing.T) {
	tables := Tables{}
	base := domaintest.NewTxn()
	at := func(base *entry.Txn, tables *Tables) Txn { return Txn{Txn: base, Tables: tables} }
	all := at(base, &tables)
	former := FormerMember{ID: "removed", Name: "host-removed", Address: "removed.example:1"}
	all.former.Put([]byte(former.ID), former)
	all.removed.Put([]byte(former.ID), RemovedPeer{ID: former.ID})
	for _, id := range []string{domaintest.Peer, "b"} {
		m := Member{ID: id, Name: "host-" + id, Address: id + ".example:1", Version: 2}
		domaintest.Commit(t, Domain, base, all, PutMember{Member: m})
	}
	base.Header.Time = 1
	domaintest.Commit(t, Domain, base, all, OpenSession{Peer: domaintest.Peer, Boot: "boot", Version: 2})
	domaintest.FindContradictions(t, Domain, base, tables, at, corruptPeers(all, former))
}

// corruptPeers are the contradictions of members, sessions and former members.
func corruptPeers(all Txn, former FormerMember) map[string]func(Txn) {
	a, _ := all.Member(domaintest.Peer)
	session, _ := all.SessionOf(a.ID)
	longer := session
	longer.Expires = longer.Expires.Add(time.Hour)
	change := func(f func(*FormerMember)) func(Txn) {
		return func(t Txn) {
			changed := former
			f(&changed)
			t.former.Put([]byte(former.ID), changed)
		}
	}
	return map[string]func(Txn){
		"cluster version":                 func(t Txn) { t.Version++ },
		"member under another name":       func(t Txn) { t.members.Put([]byte("x"), a) },
		"member against the rules":        func(t Txn) { t.members.Put([]byte("x"), Member{ID: "x"}) },
		"removed peer under another key":  func(t Txn) { t.removed.Put([]byte("x"), RemovedPeer{ID: "y"}) },
		"removed peer that is a member":   func(t Txn) { t.removed.Put([]byte("a"), RemovedPeer{ID: "a"}) },
		"removed peer of no entry":        func(t Txn) { t.removed.Put([]byte("x"), RemovedPeer{ID: "x", At: 1 << 60}) },
		"session of no member":            func(t Txn) { t.members.Drop([]byte("a")); t.Version = t.leastVersion() },
		"session missing of its peer":     func(t Txn) { t.sessionOf.Drop([]byte("a")) },
		"session of two peers":            func(t Txn) { t.sessionOf.Put([]byte("c"), session.ID) },
		"session under another key":       func(t Txn) { t.sessions.Put(table.TokenKey(1), session) },
		"session without deadline":        func(t Txn) { t.Disarm(session.Expires, dueSession, table.TokenKey(session.ID)) },
		"session that lasts too long":     func(t Txn) { t.sessions.Put(table.TokenKey(session.ID), longer) },
		"join token without deadline":     func(t Txn) { t.joins.Put([]byte("x"), JoinToken{ID: "x", Expires: 1 << 60}) },
		"former member under another key": change(func(f *FormerMember) { f.ID = "y" }),
		"former member without address":   change(func(f *FormerMember) { f.Address = "" }),
		"former member was not removed":   func(t Txn) { t.removed.Drop([]byte(former.ID)) },
		"former member became unknown one": change(func(f *FormerMember) {
			f.Heard, f.Became, f.Key = true, "nobody", [32]byte{1}
		}),
		"former member became without key": change(func(f *FormerMember) { f.Heard, f.Became = true, "a" }),
	}
}
