package membership

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/valid"
)

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
	Version int    `cbor:"6,keyasint"`           // log version that it has announced; it may know a newer one
	Binary  string `cbor:"7,keyasint,omitempty"` // version of the build
	// JoinedWall is the wall clock at the join, Unix ms; for display. A zero
	// is filled in from the entry.
	JoinedWall int64 `cbor:"8,keyasint,omitempty"`
}

// Validate says why a member cannot go into the log.
func (m Member) Validate() error {
	if err := valid.ID("server ID", m.ID); err != nil {
		return err
	}
	if m.Version < 1 || m.Version > maxVersion {
		return fmt.Errorf("log version %d is out of range", m.Version)
	}
	err := cmp.Or(valid.Length("name", m.Name, 1, maxName), valid.Length("binary version", m.Binary, 0, maxBinary))
	if err == nil && m.Address == "" {
		err = errors.New("no address")
	}
	return cmp.Or(err, valid.Each([]string{m.Address, m.Gossip, m.API}, valid.Address))
}

// putMember and dropMember keep the cluster's version: the least of all.
func (t Txn) putMember(m Member) {
	t.members.Put([]byte(m.ID), m)
	t.Version = t.leastVersion()
}

func (t Txn) dropMember(id string, at fencing.Token) {
	m, _ := t.members.Get([]byte(id))
	t.members.Drop([]byte(id))
	t.flags.Drop([]byte(id))
	t.progress.Drop([]byte(id))
	t.Version = t.leastVersion()
	t.remove(m, at)
}

// leastVersion returns the log version that every member knows, 0 without members.
func (s *Tables) leastVersion() int {
	least := 0
	for _, m := range s.members.All() {
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
func (c PutMember) Validate() error { return c.Member.Validate() }

// Apply implements entry.Change.
func (c PutMember) Apply(t Txn) entry.Result { return t.Admit(c.Member) }

// Admit stores a member. A newcomer must know all that the log may hold.
func (t Txn) Admit(m Member) entry.Result {
	old, known := t.members.Get([]byte(m.ID))
	switch {
	case t.removed.Has([]byte(m.ID)):
		return entry.Refuse(entry.Conflict, "server ID %s is that of a removed peer and never used again: join the host anew",
			m.ID)
	case !known && t.members.Size() >= MaxMembers:
		return entry.Refuse(entry.Refused, "the cluster has %d members, which is the most; remove one", MaxMembers)
	case !known && m.Version < t.Version:
		return entry.Refuse(entry.Refused, "peer %s knows log version %d, the cluster uses %d: upgrade trivet on it", m.Name,
			m.Version, t.Version)
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

// Apply implements entry.Change.
func (c RemoveMember) Apply(t Txn) entry.Result {
	if t.forgetFormer(func(f FormerMember) bool { return f.ID == c.ID }) {
		return entry.Done()
	}
	if !t.members.Has([]byte(c.ID)) {
		return entry.Refuse(entry.NotFound, "peer %s is not a member of this cluster", c.ID)
	}
	if t.members.Size() == 1 {
		return entry.Refuse(entry.Refused, "peer %s is the last member", c.ID)
	}
	others := t.electorate(c.ID)
	if others.voters == 0 {
		return entry.Refuse(entry.Refused, "peer %s is the last voter: the others are observers; promote one first", c.ID)
	}
	// No majority needs an observer.
	if need := others.need(); others.live < need && !t.MemberFlags(c.ID).Observer && !c.Force {
		return entry.Refuse(entry.Refused,
			"without it %d members remain, of which %d live, and a majority of them is %d: they could not go on", others.voters,
			others.live, need)
	}
	t.discharge(c.ID)
	return entry.Done()
}

// discharge drops a member and records its removal. A host that rejoined as it may
// not ask again. Its session ends, but not while it holds claims in a cluster that
// records removals: a removed peer that is cut off acts on them until the session's
// deadline, and no other peer may have them before. Nothing else uses the session.
func (t Txn) discharge(id string) {
	if session, ok := t.sessionOf.Get([]byte(id)); ok {
		t.Kube.DropVotesOf(session)
		if !t.Version2() || !t.Nodes.HoldsClaim(session) {
			t.endSession(session)
		}
	}
	t.recordMember(eventring.ActionRemoved, id)
	t.dropMember(id, t.Token)
	t.forgetFormer(func(f FormerMember) bool { return f.Became == id })
}

// recordMember records an event about a member.
func (t Txn) recordMember(action, id string, pairs ...string) {
	t.RecordEvent(eventring.Event{Topic: eventring.TopicMember, Action: action, Peer: t.NameOf(id),
		Fields: eventring.Fields(pairs...)})
}
