package fsm

import (
	"errors"
	"fmt"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

var memberDomain = domain{
	Verbs: []entry.Verb[*txn]{
		entry.NewVerb(20, "put member", func(t *txn, c PutMember) Result { return t.admitMember(c.Member) }),
		entry.NewVerb(21, "remove member", applyRemoveMember),
	},
	Sections: []entry.Section[*txn]{
		entry.Many('m', "members", func(d *txn) table.Of[Member] { return d.peers.members }, func(d *txn, m Member) { d.putMember(m) }),
	},
	Check: checkMembers,
}

// Bounds of the member table.
const (
	// MaxMembers is the greatest number of members, voting or not.
	MaxMembers = 64

	maxName    = 253
	maxBinary  = 128
	maxVersion = 1 << 20
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
	if err := valid.ID("server ID", m.ID); err != nil {
		return err
	}
	if m.Version < 1 || m.Version > maxVersion {
		return fmt.Errorf("log version %d is out of range", m.Version)
	}
	if err := valid.Length("name", m.Name, 1, maxName); err != nil {
		return err
	}
	if err := valid.Length("binary version", m.Binary, 0, maxBinary); err != nil {
		return err
	}
	if m.Address == "" {
		return errors.New("no address")
	}
	for _, address := range []string{m.Address, m.Gossip, m.API} {
		if err := valid.Address(address); err != nil {
			return err
		}
	}
	return nil
}

// memberTables are the members, and what is handed out to them and to operators.
type memberTables struct {
	peers     peers
	joins     table.Of[JoinToken] // by ID
	gossip    gossip
	operators table.Of[Operator] // those who were given certificates, by name
}

// peers holds the members and their sessions.
type peers struct {
	members   table.Of[Member]        // by ID
	sessions  table.Of[Session]       // by ID
	sessionOf table.Of[fencing.Token] // by server ID; each peer has at most one
	flags     table.Of[MemberFlags]   // by server ID; see member_flags.go
	removed   table.Of[RemovedPeer]   // by server ID; see member_removed.go
	progress  table.Of[Progress]      // by server ID
	former    table.Of[FormerMember]  // by server ID; see member_former.go
}

func newPeers() peers {
	return peers{
		members: table.New[Member](), sessions: table.New[Session](), sessionOf: table.New[fencing.Token](), flags: table.New[MemberFlags](),
		removed: table.New[RemovedPeer](), progress: table.New[Progress](), former: table.New[FormerMember](),
	}
}

// putMember and dropMember keep the cluster's version: the least of all.
func (d *data) putMember(m Member) {
	d.peers.members.Put([]byte(m.ID), m)
	d.shared.Version = d.peers.leastVersion()
}

func (d *data) dropMember(id string, at fencing.Token) {
	m, _ := d.peers.members.Get([]byte(id))
	d.peers.members.Drop([]byte(id))
	d.peers.flags.Drop([]byte(id))
	d.peers.progress.Drop([]byte(id))
	d.shared.Version = d.peers.leastVersion()
	d.remove(m, at)
}

// memberSession returns a session that is not over, and false if it is, or if its
// peer was removed meanwhile: such a session only holds claims.
func (p *peers) memberSession(id fencing.Token) (Session, bool) {
	s, ok := p.sessions.Get(table.TokenKey(id))
	return s, ok && p.members.Has([]byte(s.Peer))
}

func (p *peers) leastVersion() int {
	least := 0
	for _, m := range p.members.All() {
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

// admitMember stores a member. A newcomer must know all that the log may hold.
func (t *txn) admitMember(m Member) Result {
	old, known := t.peers.members.Get([]byte(m.ID))
	switch {
	case t.peers.removed.Has([]byte(m.ID)):
		return entry.Refuse(Conflict, "server ID %s is that of a removed peer and never used again: join the host anew", m.ID)
	case !known && t.peers.members.Size() >= MaxMembers:
		return entry.Refuse(Refused, "the cluster has %d members, which is the most; remove one", MaxMembers)
	case !known && m.Version < t.Version:
		return entry.Refuse(Refused, "peer %s knows log version %d, the cluster uses %d: upgrade trivet on it", m.Name, m.Version, t.Version)
	case m.JoinedWall == 0 && known:
		m.JoinedWall = old.JoinedWall
	case m.JoinedWall == 0:
		m.JoinedWall = t.Header.WallMillis
	}
	t.putMember(m)
	if !known {
		t.recordMember(eventring.ActionJoined, m.ID, "address", m.Address)
	}
	return entry.Done()
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
func (c RemoveMember) Validate() error { return valid.ID("server ID", c.ID) }

func applyRemoveMember(t *txn, c RemoveMember) Result {
	if t.forgetFormer(func(f FormerMember) bool { return f.ID == c.ID }) {
		return entry.Done()
	}
	if !t.peers.members.Has([]byte(c.ID)) {
		return entry.Refuse(NotFound, "peer %s is not a member of this cluster", c.ID)
	}
	if t.peers.members.Size() == 1 {
		return entry.Refuse(Refused, "peer %s is the last member", c.ID)
	}
	others := t.electorate(c.ID)
	if others.voters == 0 {
		return entry.Refuse(Refused, "peer %s is the last voter: the others are observers; promote one first", c.ID)
	}
	// No majority needs an observer.
	if need := others.need(); others.live < need && !t.peers.memberFlags(c.ID).Observer && !c.Force {
		return entry.Refuse(Refused, "without it %d members remain, of which %d live, and a majority of them is %d: they could not go on", others.voters, others.live, need)
	}
	t.discharge(c.ID)
	return entry.Done()
}

// discharge drops a member and records its removal. A host that rejoined as it may
// not ask again. Its session ends, but not while it holds claims in a cluster that
// records removals: a removed peer that is cut off acts on them until the session's
// deadline, and no other peer may have them before. Nothing else uses the session.
func (t *txn) discharge(id string) {
	if session, ok := t.peers.sessionOf.Get([]byte(id)); ok {
		kubeOf(t).DropVotesOf(session)
		if !t.Version2() || !nodesOf(t).HoldsClaim(session) {
			t.endSession(session)
		}
	}
	t.recordMember(eventring.ActionRemoved, id)
	t.dropMember(id, t.Token)
	t.forgetFormer(func(f FormerMember) bool { return f.Became == id })
}

// recordMember records an event about a member.
func (t *txn) recordMember(action, id string, pairs ...string) {
	t.RecordEvent(eventring.Event{Topic: eventring.TopicMember, Action: action, Peer: t.NameOf(id), Fields: eventring.Fields(pairs...)})
}
