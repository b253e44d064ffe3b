package fsm

import "github.com/trivet-ha/trivet/fsm/fencing"

// granted is the greatest token that any entry up to now was given.
func (d *data) granted() fencing.Token { return fencing.At(d.cluster.Base, d.position.Index) }

func checkPosition(d *data, p *problems) {
	pos, lead := d.position, d.lead
	p.want(d.throttle.Next >= 0, "the next turn is at %v", d.throttle.Next)
	p.want(pos.Now >= 0, "cluster time is negative: %v", pos.Now)
	p.want(pos.Floor <= d.granted(), "the token floor %v is above the newest entry's token %v", pos.Floor, d.granted())
	p.want(0 <= lead.At && lead.At <= pos.Now, "leadership %v began at %v, now is %v", lead.Token, lead.At, pos.Now)
	p.want(lead.Token <= pos.Floor, "leadership %v is above the token floor %v", lead.Token, pos.Floor)
	if !lead.Token.IsZero() {
		p.want(lead.Token == fencing.At(d.cluster.Base, lead.Index), "leadership %v is not base plus its index %d", lead.Token, lead.Index)
		p.want(lead.Index <= pos.Index && lead.Term <= pos.Term, "leadership %v comes from later than the last entry", lead.Token)
		p.want(lead.Peer != "", "leadership %v has no peer", lead.Token)
	} else {
		p.want(lead == Leadership{}, "a leadership without a token: %+v", lead)
	}
	if d.cluster.ID != "" {
		p.want(d.cluster.Incarnation > 0, "a founded cluster has incarnation 0")
		p.want(d.peers.members.size() > 0, "a founded cluster has no member")
	}
}

func checkMembers(d *data, p *problems) {
	p.want(d.peers.members.size() <= MaxMembers, "%d members", d.peers.members.size())
	p.want(d.peers.version == d.peers.leastVersion(), "cluster version is %d, the least of the members' is %d", d.peers.version, d.peers.leastVersion())
	for key, m := range d.peers.members.all() {
		p.want(string(key) == m.ID, "member %s is filed under %q", m.ID, key)
		// OpenSession has always accepted any text as the API's address: a state that
		// was reached must be read back.
		p.want(len(m.API) <= maxAddress, "member %s: the API's address has %d bytes", m.ID, len(m.API))
		m.API = ""
		if err := m.validate(); err != nil {
			p.addf("member %s: %v", m.ID, err)
		}
	}
}

func checkSession(d *data, p *problems, key []byte, s Session) {
	now := d.position.Now
	p.want(string(key) == string(tokenKey(s.ID)), "session %v is filed under %x", s.ID, key)
	p.want(!s.ID.IsZero() && s.ID <= d.granted(), "session %v was granted by no entry", s.ID)
	p.want(s.Opened <= now && s.Expires > now && s.Expires <= now.Add(SessionTTL), "session %v, opened %v, ends at %v, now is %v", s.ID, s.Opened, s.Expires, now)
	of, _ := d.peers.sessionOf.get([]byte(s.Peer))
	p.want(of == s.ID, "the session of peer %s is %v and %v", s.Peer, s.ID, of)
	m, ok := d.peers.members.get([]byte(s.Peer))
	p.want(ok || d.peers.removed.has([]byte(s.Peer)), "session %v belongs to %s, which is not a member", s.ID, s.Peer)
	p.want(!ok || m.Version > 0, "member %s has no log version", m.ID)
}

func checkRequests(d *data, p *problems) {
	p.want(d.requests.byID.size() <= MaxRequests, "%d results are kept", d.requests.byID.size())
	sessions, clients := 0, 0
	for key, o := range d.requests.byID.all() {
		p.want(string(key) == string(o.ID[:]), "result %v is filed under %x", o.ID, key)
		p.want(!tooOld(o.ID, d.position.Now), "result %v is too old at %v", o.ID, d.position.Now)
		p.want(!o.Session.IsZero() || o.Client != "", "nobody waits for result %v", o.ID)
		p.want(!o.Result.Repeated && !o.Result.Retried, "result %v is stored as a repeat", o.ID)
		if !o.Session.IsZero() {
			sessions++
			s, live := d.peers.sessions.get(tokenKey(o.Session))
			p.want(live && !o.ID.Less(s.Answered), "result %v is not wanted by session %v any more", o.ID, o.Session)
			p.want(d.requests.bySession.has(pairKey(o.Session, o.ID[:]...)), "result %v is missing from session %v", o.ID, o.Session)
		}
		if o.Client != "" {
			clients++
			first, _ := d.requests.byClient.get([]byte(o.Client))
			p.want(first == o.ID, "client ID %q names %v and %v", o.Client, first, o.ID)
		}
	}
	p.want(sessions == d.requests.bySession.size(), "%d results of sessions, %d in their index", sessions, d.requests.bySession.size())
	p.want(clients == d.requests.byClient.size(), "%d results of clients, %d in their index", clients, d.requests.byClient.size())
}

// checkDue compares the deadlines with the records they belong to.
func checkDue(d *data, p *problems) {
	want := 0
	for _, e := range endings {
		e.due(d, func(at Time, id []byte) {
			want++
			p.want(d.due.has(dueKey(at, e.class, id)), "no deadline %v of class %q for %x", at, e.class, id)
			p.want(at > d.position.Now, "deadline %v of class %q for %x is past", at, e.class, id)
		})
	}
	p.want(want == d.due.size(), "%d deadlines for %d records", d.due.size(), want)
}
