package membership

import (
	"bytes"
	"slices"

	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

func checkMembers(t Txn, p *valid.Problems) {
	p.Want(t.members.Size() <= MaxMembers, "%d members", t.members.Size())
	p.Want(t.Version == t.leastVersion(), "cluster version is %d, the least of the members' is %d", t.Version,
		t.leastVersion())
	for key, m := range t.members.All() {
		p.Want(string(key) == m.ID, "member %s is filed under %q", m.ID, key)
		// OpenSession has always accepted any text as the API's address: a state that
		// was reached must be read back.
		p.Want(len(m.API) <= valid.MaxAddress, "member %s: the API's address has %d bytes", m.ID, len(m.API))
		m.API = ""
		p.Invalid(m.Validate(), "member %s: ", m.ID)
	}
}

func checkSessions(t Txn, p *valid.Problems) {
	p.Want(t.sessionOf.Size() == t.sessions.Size(), "%d sessions belong to %d peers", t.sessions.Size(),
		t.sessionOf.Size())
	now := t.Now()
	for key, s := range t.sessions.All() {
		p.Want(string(key) == string(table.TokenKey(s.ID)), "session %v is filed under %x", s.ID, key)
		p.Want(!s.ID.IsZero() && s.ID <= t.Granted(), "session %v was granted by no entry", s.ID)
		p.Want(s.Opened <= now && s.Expires > now && s.Expires <= now.Add(SessionTTL),
			"session %v, opened %v, ends at %v, now is %v", s.ID, s.Opened, s.Expires, now)
		of, _ := t.sessionOf.Get([]byte(s.Peer))
		p.Want(of == s.ID, "the session of peer %s is %v and %v", s.Peer, s.ID, of)
		m, ok := t.members.Get([]byte(s.Peer))
		p.Want(ok || t.removed.Has([]byte(s.Peer)), "session %v belongs to %s, which is not a member", s.ID, s.Peer)
		p.Want(!ok || m.Version > 0, "member %s has no log version", m.ID)
	}
}

func checkFlags(t Txn, p *valid.Problems) {
	for key, s := range t.flags.All() {
		p.Want(string(key) == s.Peer, "what was decided of %s is filed under %q", s.Peer, key)
		p.Want(t.members.Has(key), "something was decided of %s, which is not a member", s.Peer)
		p.Want(!s.IsZero(), "flags of %s that say nothing", s.Peer)
		p.Want(s.MaintenanceWall == 0 || s.Maintenance, "%s is not in maintenance, but since %d", s.Peer, s.MaintenanceWall)
	}
	if t.Cluster.ID != "" && t.members.Size() > 0 {
		p.Want(t.electorate("").voters > 0, "a founded cluster has no voter")
	}
}

func checkRemoved(t Txn, p *valid.Problems) {
	p.Want(t.removed.Size() <= MaxRemoved, "%d removed peers", t.removed.Size())
	for key, r := range t.removed.All() {
		p.Want(string(key) == r.ID && r.ID != "", "removed peer %s is filed under %q", r.ID, key)
		p.Want(r.At <= t.Granted(), "peer %s was removed by token %v, which is to come", r.ID, r.At)
		p.Want(!t.members.Has(key), "peer %s is a member and was removed", r.ID)
	}
}

func checkProgress(t Txn, p *valid.Problems) {
	for key, one := range t.progress.All() {
		p.Want(string(key) == one.Peer, "the progress of %s is filed under %q", one.Peer, key)
		p.Want(!one.Token.IsZero() && one.Token <= t.Granted(), "peer %s has applied token %v, which is to come", one.Peer,
			one.Token)
	}
}

func checkTokens(t Txn, p *valid.Problems) {
	for key, j := range t.joins.All() {
		p.Want(string(key) == j.ID, "join token %s is filed under %q", j.ID, key)
	}
}

func checkFormer(t Txn, p *valid.Problems) {
	p.Want(t.former.Size() <= MaxFormer, "%d former members", t.former.Size())
	for key, f := range t.former.All() {
		p.Want(string(key) == f.ID, "former member %s is filed under %q", f.ID, key)
		p.Invalid(f.validate(), "former member %s: ", f.ID)
		p.Want(t.removed.Has(key), "former member %s is not recorded as removed", f.ID)
		p.Want((f.Became == "") == (f.Key == [32]byte{}), "former member %s became %q with key %x", f.ID, f.Became, f.Key)
		p.Want(f.Became == "" || t.members.Has([]byte(f.Became)), "former member %s became %s, which is not a member", f.ID,
			f.Became)
	}
}

func checkGossip(t Txn, p *valid.Problems) {
	g := t.gossip
	p.Want(g.Stage <= GossipDropping, "an unknown %v", g.Stage)
	p.Want((len(g.Other) > 0) == (g.Stage == GossipAdding || g.Stage == GossipUsing),
		"at stage '%v' of the gossip keys there are %d bytes of another one", g.Stage, len(g.Other))
	p.Want(len(g.Other) == 0 || !bytes.Equal(g.Other, t.Cluster.GossipKey), "the other gossip key is the one in use")
	p.Want(g.Stage == GossipSettled || !g.Changed.IsZero(), "a stage '%v' of the gossip keys that no entry began", g.Stage)
	p.Want(g.Stage != GossipSettled || len(g.Confirmed) == 0, "keys that no rotation waits for are confirmed by %v",
		g.Confirmed)
	p.Want(g.Changed <= t.Granted() && g.Since >= 0 && g.Since <= t.Now(),
		"the gossip keys were changed by token %v at %v, which is to come", g.Changed, g.Since)
	p.Want(slices.IsSorted(g.Confirmed) && len(slices.Compact(slices.Clone(g.Confirmed))) == len(g.Confirmed) &&
		len(g.Confirmed) <= MaxMembers,
		"the gossip keys are confirmed by %v", g.Confirmed)
}
