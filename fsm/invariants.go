package fsm

import (
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

func checkPosition(d *txn, p *valid.Problems) {
	pos, lead := d.shared.Position, d.lead
	p.Want(pos.Now >= 0, "cluster time is negative: %v", pos.Now)
	p.Want(pos.Floor <= d.shared.Granted(), "the token floor %v is above the newest entry's token %v", pos.Floor, d.shared.Granted())
	p.Want(0 <= lead.At && lead.At <= pos.Now, "leadership %v began at %v, now is %v", lead.Token, lead.At, pos.Now)
	p.Want(lead.Token <= pos.Floor, "leadership %v is above the token floor %v", lead.Token, pos.Floor)
	if !lead.Token.IsZero() {
		p.Want(lead.Token == fencing.At(d.shared.Cluster.Base, lead.Index), "leadership %v is not base plus its index %d", lead.Token, lead.Index)
		p.Want(lead.Index <= pos.Index && lead.Term <= pos.Term, "leadership %v comes from later than the last entry", lead.Token)
		p.Want(lead.Peer != "", "leadership %v has no peer", lead.Token)
	} else {
		p.Want(lead == Leadership{}, "a leadership without a token: %+v", lead)
	}
	if d.shared.Cluster.ID != "" {
		p.Want(d.shared.Cluster.Incarnation > 0, "a founded cluster has incarnation 0")
		p.Want(d.peers.members.Size() > 0, "a founded cluster has no member")
	}
}

func checkMembers(d *txn, p *valid.Problems) {
	p.Want(d.peers.members.Size() <= MaxMembers, "%d members", d.peers.members.Size())
	p.Want(d.shared.Version == d.peers.leastVersion(), "cluster version is %d, the least of the members' is %d", d.shared.Version, d.peers.leastVersion())
	for key, m := range d.peers.members.All() {
		p.Want(string(key) == m.ID, "member %s is filed under %q", m.ID, key)
		// OpenSession has always accepted any text as the API's address: a state that
		// was reached must be read back.
		p.Want(len(m.API) <= valid.MaxAddress, "member %s: the API's address has %d bytes", m.ID, len(m.API))
		m.API = ""
		if err := m.validate(); err != nil {
			p.Addf("member %s: %v", m.ID, err)
		}
	}
}

func checkSessions(d *txn, p *valid.Problems) {
	p.Want(d.peers.sessionOf.Size() == d.peers.sessions.Size(), "%d sessions belong to %d peers", d.peers.sessions.Size(), d.peers.sessionOf.Size())
	now := d.shared.Position.Now
	for key, s := range d.peers.sessions.All() {
		p.Want(string(key) == string(table.TokenKey(s.ID)), "session %v is filed under %x", s.ID, key)
		p.Want(!s.ID.IsZero() && s.ID <= d.shared.Granted(), "session %v was granted by no entry", s.ID)
		p.Want(s.Opened <= now && s.Expires > now && s.Expires <= now.Add(SessionTTL), "session %v, opened %v, ends at %v, now is %v", s.ID, s.Opened, s.Expires, now)
		of, _ := d.peers.sessionOf.Get([]byte(s.Peer))
		p.Want(of == s.ID, "the session of peer %s is %v and %v", s.Peer, s.ID, of)
		m, ok := d.peers.members.Get([]byte(s.Peer))
		p.Want(ok || d.peers.removed.Has([]byte(s.Peer)), "session %v belongs to %s, which is not a member", s.ID, s.Peer)
		p.Want(!ok || m.Version > 0, "member %s has no log version", m.ID)
	}
}

func checkRequests(d *txn, p *valid.Problems) {
	p.Want(d.requests.byID.Size() <= MaxRequests, "%d results are kept", d.requests.byID.Size())
	sessions, clients := 0, 0
	for key, o := range d.requests.byID.All() {
		p.Want(string(key) == string(o.ID[:]), "result %v is filed under %x", o.ID, key)
		p.Want(!tooOld(o.ID, d.shared.Position.Now), "result %v is too old at %v", o.ID, d.shared.Position.Now)
		p.Want(!o.Session.IsZero() || o.Client != "", "result %v is kept for no session and no client", o.ID)
		p.Want(!o.Result.Repeated && !o.Result.Retried, "result %v is stored as a repeat", o.ID)
		if !o.Session.IsZero() {
			sessions++
			s, live := d.peers.sessions.Get(table.TokenKey(o.Session))
			p.Want(live && !o.ID.Less(s.Answered), "result %v is not wanted by session %v any more", o.ID, o.Session)
			p.Want(d.requests.bySession.Has(table.PairKey(o.Session, o.ID[:]...)), "result %v is missing from session %v", o.ID, o.Session)
		}
		if o.Client != "" {
			clients++
			first, _ := d.requests.byClient.Get([]byte(o.Client))
			p.Want(first == o.ID, "client ID %q names %v and %v", o.Client, first, o.ID)
		}
	}
	p.Want(sessions == d.requests.bySession.Size(), "%d results of sessions, %d in their index", sessions, d.requests.bySession.Size())
	p.Want(clients == d.requests.byClient.Size(), "%d results of clients, %d in their index", clients, d.requests.byClient.Size())
}
