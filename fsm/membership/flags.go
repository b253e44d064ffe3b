package membership

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/trivet-ha/trivet/fsm/codec"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Exclusion is a work of members that an operator may relieve one of. The
// numbers are part of the log.
type Exclusion uint8

const (
	// FromLeading is maintenance: the member never leads and begins no work.
	// It votes, and counts in every majority.
	FromLeading Exclusion = 1
	// FromVoting makes the member an observer: it follows the log and counts
	// in no majority.
	FromVoting Exclusion = 2
)

var exclusions = [...]string{"", "leading", "voting"}

// String returns what the member is relieved of.
func (e Exclusion) String() string { return codec.NameOf(exclusions[:], "exclusion", uint8(e)) }

// MarshalText implements encoding.TextMarshaler.
func (e Exclusion) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// MemberFlags is what an operator has decided about a member. There is none of a
// member that votes and may lead. It is no part of Member, which older peers
// read: within a log version a struct gains no field.
type MemberFlags struct {
	Peer        string `cbor:"1,keyasint"` // server ID
	Observer    bool   `cbor:"2,keyasint,omitempty"`
	Maintenance bool   `cbor:"3,keyasint,omitempty"`
	// MaintenanceWall is the wall clock at its beginning, Unix ms; for display.
	MaintenanceWall int64 `cbor:"4,keyasint,omitempty"`
}

// IsZero says whether nothing is decided.
func (s MemberFlags) IsZero() bool { return !s.Observer && !s.Maintenance }

// withExclusion returns the flags with one exclusion set or cleared.
func (s MemberFlags) withExclusion(e Exclusion, on bool, wall int64) MemberFlags {
	switch {
	case e == FromVoting:
		s.Observer = on
	case on:
		s.Maintenance, s.MaintenanceWall = true, wall
	default:
		s.Maintenance, s.MaintenanceWall = false, 0
	}
	return s
}

// has says whether an exclusion is in force.
func (s MemberFlags) has(e Exclusion) bool {
	if e == FromVoting {
		return s.Observer
	}
	return s.Maintenance
}

// putMemberFlags stores what was decided of a member.
func (t Txn) putMemberFlags(f MemberFlags) {
	if f.IsZero() {
		t.flags.Drop([]byte(f.Peer))
		return
	}
	t.flags.Put([]byte(f.Peer), f)
}

// Exclude relieves a member of a work, or gives it back. Both are refused, with the
// arithmetic, where no voter could lead afterwards or no majority of the voters
// would live, unless forced. Nothing forces a cluster without voters.
type Exclude struct {
	Peer  string    `cbor:"1,keyasint"` // server ID
	From  Exclusion `cbor:"2,keyasint"`
	On    bool      `cbor:"3,keyasint,omitempty"`
	Force bool      `cbor:"4,keyasint,omitempty"`
}

// Validate implements Command.
func (c Exclude) Validate() error {
	if c.From != FromLeading && c.From != FromVoting {
		return fmt.Errorf("a member is excluded from leading or from voting, not from %d", uint8(c.From))
	}
	return valid.ID("server ID", c.Peer)
}

// Apply implements entry.Change.
func (c Exclude) Apply(t Txn) entry.Result {
	if !t.members.Has([]byte(c.Peer)) {
		return entry.Refuse(entry.NotFound, "peer %s is not a member of this cluster", c.Peer)
	}
	old := t.MemberFlags(c.Peer)
	if old.has(c.From) == c.On {
		return entry.Done() // as old as it was
	}
	if res := t.mayExclude(c); res.Code != entry.OK {
		return res
	}
	t.putMemberFlags(old.withExclusion(c.From, c.On, t.Header.WallMillis))
	action := eventring.ActionPromoted
	switch {
	case c.From == FromLeading && c.On:
		action = eventring.ActionMaintenanceBegan
	case c.From == FromLeading:
		action = eventring.ActionMaintenanceEnded
	case c.On:
		action = eventring.ActionDemoted
	}
	t.recordMember(action, c.Peer)
	return entry.Done()
}

func (s *Tables) mayExclude(c Exclude) entry.Result {
	others := s.electorate(c.Peer)
	switch {
	case c.On && c.From == FromVoting && others.voters == 0:
		return entry.Refuse(entry.Refused, "peer %s is the last voter", c.Peer)
	case c.Force:
		return entry.Done()
	case !c.On && c.From == FromVoting && !s.sessionOf.Has([]byte(c.Peer)):
		return entry.Refuse(entry.Refused,
			"peer %s does not live: as a voter it would raise the majority that the others need from %d to %d; start it first",
			c.Peer, others.need(), (others.voters+1)/2+1)
	case !c.On || c.From == FromLeading && s.MemberFlags(c.Peer).Observer: // an observer leads in no case
		return entry.Done()
	}
	if need := others.need(); c.From == FromVoting && others.live < need {
		return entry.Refuse(entry.Refused,
			"without its vote %d voters remain, of which %d live, and a majority of them is %d: they could not go on",
			others.voters, others.live, need)
	}
	if others.candidates == 0 {
		return entry.Refuse(entry.Refused,
			"nobody else could lead: of %d other voters %d live, and none of those may lead and is willing to", others.voters,
			others.live)
	}
	return entry.Done()
}

// electorate counts voters: members that are no observers.
type electorate struct {
	voters     int
	live       int // those with a session
	candidates int // of the live, those that may lead and do not refuse to
}

func (e electorate) need() int { return e.voters/2 + 1 }

// electorate counts the voters other than the member named.
func (s *Tables) electorate(without string) (e electorate) {
	for _, m := range s.members.All() {
		flags := s.MemberFlags(m.ID)
		if m.ID == without || flags.Observer {
			continue
		}
		e.voters++
		session, live := s.SessionOf(m.ID)
		if !live {
			continue
		}
		e.live++
		if session.Refuses == "" && !flags.Maintenance {
			e.candidates++
		}
	}
	return e
}

// Observe admits a member as UseJoinToken does, as an observer from its first
// moment on: nothing can promote it in between.
type Observe struct {
	Hash   [32]byte `cbor:"1,keyasint"`
	Member Member   `cbor:"2,keyasint"`
}

// Validate implements Command.
func (c Observe) Validate() error { return c.Member.Validate() }

// Apply implements entry.Change.
func (c Observe) Apply(t Txn) entry.Result {
	if res := UseJoinToken(c).Apply(t); res.Code != entry.OK {
		return res
	}
	t.putMemberFlags(t.MemberFlags(c.Member.ID).withExclusion(FromVoting, true, 0))
	if t.electorate("").voters == 0 {
		return entry.Refuse(entry.Refused, "the only voter has this name or address: an observer cannot take its place")
	}
	return entry.Done()
}

// MoveMember says where a member is from now on. What is empty stays as it is. Two
// members never have one address: a peer that dials one would find the other.
type MoveMember struct {
	Peer    string `cbor:"1,keyasint"`           // server ID
	Address string `cbor:"2,keyasint"`           // host:port of the peers' port
	Gossip  string `cbor:"3,keyasint,omitempty"` // host:port
	API     string `cbor:"4,keyasint,omitempty"` // host:port
}

// Validate implements Command.
func (c MoveMember) Validate() error {
	if c.Address == "" {
		return errors.New("no address")
	}
	return cmp.Or(valid.Each([]string{c.Address, c.Gossip, c.API}, valid.Address), valid.ID("server ID", c.Peer))
}

// Apply implements entry.Change.
func (c MoveMember) Apply(t Txn) entry.Result {
	m, ok := t.members.Get([]byte(c.Peer))
	if !ok {
		return entry.Refuse(entry.NotFound, "peer %s is not a member of this cluster", c.Peer)
	}
	for _, other := range t.members.All() {
		if other.ID != m.ID && (other.Address == c.Address || c.Gossip != "" && other.Gossip == c.Gossip) {
			return entry.Refuse(entry.Conflict, "peer %s (%s) has the address %s: move or remove that one first", other.ID,
				other.Name, c.Address)
		}
	}
	m.Address, m.Gossip, m.API = c.Address, cmp.Or(c.Gossip, m.Gossip), cmp.Or(c.API, m.API)
	t.putMember(m)
	t.recordMember(eventring.ActionMoved, m.ID, "address", m.Address)
	return entry.Done()
}
