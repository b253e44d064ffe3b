package fsm

import "github.com/trivet-ha/trivet/fsm/fencing"

var memberDomain = domain{
	verbs: []row{
		verb(20, "put member", applyPutMember),
		verb(21, "remove member", applyRemoveMember),
	},
	sections: []section{
		many('m', "members", func(d *data) table[Member] { return d.peers.members }, func(d *data, m Member) { d.peers.putMember(m) }),
	},
	check: checkMembers,
}

// Bounds of the member table.
const (
	// MaxMembers is the greatest number of members, voting or not.
	MaxMembers = 64

	maxName   = 253
	maxBinary = 128
)

// Member is a peer that belongs to the cluster. The raft configuration follows
// this table; an ID is new at every join (docs/design.md#membership).
type Member struct {
	ID      string `cbor:"1,keyasint"` // server ID
	Name    string `cbor:"2,keyasint"`
	Address string `cbor:"3,keyasint"`           // host:port of the peers' port
	Gossip  string `cbor:"4,keyasint,omitempty"` // host:port
	API     string `cbor:"5,keyasint,omitempty"` // host:port
	Version int    `cbor:"6,keyasint"`           // newest log version it knows
	Binary  string `cbor:"7,keyasint,omitempty"` // version of the build
	// JoinedWall is the wall clock at the join, Unix ms; for display. A zero
	// is filled in from the entry.
	JoinedWall int64 `cbor:"8,keyasint,omitempty"`
}

func (m Member) validate() error {
	if err := validID("server ID", m.ID); err != nil {
		return err
	}
	if m.Version < 1 || m.Version > maxVersion {
		return invalid("log version %d is out of range", m.Version)
	}
	if err := within("name", m.Name, 1, maxName); err != nil {
		return err
	}
	if err := within("binary version", m.Binary, 0, maxBinary); err != nil {
		return err
	}
	if m.Address == "" {
		return invalid("no address")
	}
	for _, address := range []string{m.Address, m.Gossip, m.API} {
		if err := validAddress(address); err != nil {
			return err
		}
	}
	return nil
}

// memberTables are the members, and what is handed out to them and to operators.
type memberTables struct {
	peers     peers
	joins     table[JoinToken] // by ID
	gossip    gossip
	operators table[Operator] // those who were given certificates, by name
}

// peers holds the members and their sessions.
type peers struct {
	members   table[Member]        // by ID
	sessions  table[Session]       // by ID
	sessionOf table[fencing.Token] // by server ID; each peer has at most one
	flags     table[MemberFlags]   // by server ID; see member_flags.go
	removed   table[RemovedPeer]   // by server ID; see member_removed.go
	progress  table[Progress]      // by server ID
	former    table[FormerMember]  // by server ID; see member_former.go
	version   int                  // least of the members'; derived
}

func newPeers() peers {
	return peers{
		members: newTable[Member](), sessions: newTable[Session](), sessionOf: newTable[fencing.Token](), flags: newTable[MemberFlags](),
		removed: newTable[RemovedPeer](), progress: newTable[Progress](), former: newTable[FormerMember](),
	}
}

// version2 reports whether every member knows log version 2: the tables and rules
// that came with it. A member that does not would not read them.
func (p *peers) version2() bool { return p.version >= 2 }

// putMember and dropMember keep the cluster's version: the least of all.
func (p *peers) putMember(m Member) {
	p.members.put([]byte(m.ID), m)
	p.version = p.leastVersion()
}

func (p *peers) dropMember(id string, at fencing.Token) {
	m, _ := p.members.get([]byte(id))
	p.members.drop([]byte(id))
	p.flags.drop([]byte(id))
	p.progress.drop([]byte(id))
	p.version = p.leastVersion()
	p.remember(m, at)
}

// memberSession returns a session that is not over, and false if it is, or if its
// peer was removed meanwhile: such a session only holds claims.
func (p *peers) memberSession(id fencing.Token) (Session, bool) {
	s, ok := p.sessions.get(tokenKey(id))
	return s, ok && p.members.has([]byte(s.Peer))
}

func (p *peers) leastVersion() int {
	least := 0
	for _, m := range p.members.all() {
		if least == 0 || m.Version < least {
			least = m.Version
		}
	}
	return least
}

// PutMember adds a member or changes what is known of one.
type PutMember struct {
	Member Member `cbor:"1,keyasint"`
}

// Validate implements Command.
func (c PutMember) Validate() error { return c.Member.validate() }

func applyPutMember(t *txn, c PutMember) Result { return t.admitMember(c.Member) }

// admitMember stores a member. A newcomer must know all that the log may hold.
func (t *txn) admitMember(m Member) Result {
	old, known := t.peers.members.get([]byte(m.ID))
	switch {
	case t.peers.removed.has([]byte(m.ID)):
		return refuse(Conflict, "server ID %s is that of a removed peer and never used again: join the host anew", m.ID)
	case !known && t.peers.members.size() >= MaxMembers:
		return refuse(Refused, "the cluster has %d members, which is the most; remove one", MaxMembers)
	case !known && m.Version < t.peers.version:
		return refuse(Refused, "peer %s knows log version %d, the cluster uses %d: upgrade trivet on it", m.Name, m.Version, t.peers.version)
	case m.JoinedWall == 0 && known:
		m.JoinedWall = old.JoinedWall
	case m.JoinedWall == 0:
		m.JoinedWall = t.header.WallMillis
	}
	t.peers.putMember(m)
	if !known {
		t.recordMember(ActionJoined, m.ID, "address", m.Address)
	}
	return done()
}

// RemoveMember removes a member and ends its session. The last one stays. The
// rest must be able to go on: a majority of those who remain must live, unless
// the removal is forced (docs/design.md#membership). Of a former member it says that its host
// is lost: no door waits for it any more, and it never rejoins.
type RemoveMember struct {
	ID    string `cbor:"1,keyasint"`
	Force bool   `cbor:"2,keyasint,omitempty"`
}

// Validate implements Command.
func (c RemoveMember) Validate() error { return validID("server ID", c.ID) }

func applyRemoveMember(t *txn, c RemoveMember) Result {
	if t.forgetFormer(func(f FormerMember) bool { return f.ID == c.ID }) {
		return done()
	}
	if !t.peers.members.has([]byte(c.ID)) {
		return refuse(NotFound, "peer %s is not a member of this cluster", c.ID)
	}
	if t.peers.members.size() == 1 {
		return refuse(Refused, "peer %s is the last member", c.ID)
	}
	others := t.electorate(c.ID)
	if others.voters == 0 {
		return refuse(Refused, "peer %s is the last voter: the others are observers; promote one first", c.ID)
	}
	if res := t.stranded(c.ID, others); res.Code != OK && !c.Force {
		return res
	}
	t.discharge(c.ID)
	return done()
}

// stranded refuses, with the arithmetic, if the voters other than id could not form
// a majority among themselves now. No majority needs an observer.
func (t *txn) stranded(id string, others electorate) Result {
	if need := others.need(); others.live < need && !t.peers.memberFlags(id).Observer {
		return refuse(Refused, "without it %d members remain, of which %d live, and a majority of them is %d: they could not go on", others.voters, others.live, need)
	}
	return done()
}

// discharge drops a member and records its removal. A host that rejoined as it may
// not ask again. Its session ends, but not while it holds claims in a cluster that
// records removals: a removed peer that is cut off acts on them until the session's
// deadline, and no other peer may have them before. Nothing else uses the session.
func (t *txn) discharge(id string) {
	if session, ok := t.peers.sessionOf.get([]byte(id)); ok {
		t.dropVotesOf(session)
		if !t.peers.version2() || !t.holdsClaim(session) {
			t.endSession(session)
		}
	}
	t.recordMember(ActionRemoved, id)
	t.peers.dropMember(id, t.token)
	t.forgetFormer(func(f FormerMember) bool { return f.Became == id })
}
