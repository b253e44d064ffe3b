package fsm

import "github.com/trivet-ha/trivet/fsm/fencing"

var memberFlagsDomain = domain{
	verbs: []row{
		verb(110, "exclude", applyExclude).from(2),
		verb(111, "observe", applyObserve).from(2),
		verb(112, "move member", applyMoveMember).from(2),
	},
	sections: []section{
		many('S', "member flags", func(d *data) table[MemberFlags] { return d.peers.flags },
			func(d *data, s MemberFlags) { d.peers.flags.put([]byte(s.Peer), s) }),
	},
	check: checkMemberFlags,
}

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
func (e Exclusion) String() string { return nameOf(exclusions[:], "exclusion", uint8(e)) }

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

// with returns the flags with one exclusion set or cleared.
func (s MemberFlags) with(e Exclusion, on bool, wall int64) MemberFlags {
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
func (p *peers) putMemberFlags(s MemberFlags) {
	if s.IsZero() {
		p.flags.drop([]byte(s.Peer))
		return
	}
	p.flags.put([]byte(s.Peer), s)
}

// memberFlags returns what was decided of a member, the zero value if nothing was.
func (p *peers) memberFlags(id string) MemberFlags {
	s, ok := p.flags.get([]byte(id))
	if !ok {
		return MemberFlags{Peer: id}
	}
	return s
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
		return invalid("a member is excluded from leading or from voting, not from %d", uint8(c.From))
	}
	return validID("server ID", c.Peer)
}

func applyExclude(t *txn, c Exclude) Result {
	if !t.peers.members.has([]byte(c.Peer)) {
		return refuse(NotFound, "peer %s is not a member of this cluster", c.Peer)
	}
	old := t.peers.memberFlags(c.Peer)
	if old.has(c.From) == c.On {
		return done() // as old as it was
	}
	if res := t.mayExclude(c); res.Code != OK {
		return res
	}
	t.peers.putMemberFlags(old.with(c.From, c.On, t.header.WallMillis))
	t.recordMember(exclusionAction(c), c.Peer)
	return done()
}

// exclusionAction is the action of the event that an Exclude is recorded as.
func exclusionAction(c Exclude) string {
	switch {
	case c.From == FromLeading && c.On:
		return ActionMaintenanceBegan
	case c.From == FromLeading:
		return ActionMaintenanceEnded
	case c.On:
		return ActionDemoted
	}
	return ActionPromoted
}

func (t *txn) mayExclude(c Exclude) Result {
	others := t.electorate(c.Peer)
	switch {
	case c.On && c.From == FromVoting && others.voters == 0:
		return refuse(Refused, "peer %s is the last voter", c.Peer)
	case c.Force:
		return done()
	case !c.On && c.From == FromVoting && !t.peers.sessionOf.has([]byte(c.Peer)):
		return refuse(Refused, "peer %s does not live: as a voter it would raise the majority that the others need from %d to %d; start it first", c.Peer, others.need(), (others.voters+1)/2+1)
	case !c.On || c.From == FromLeading && t.peers.memberFlags(c.Peer).Observer: // an observer leads in no case
		return done()
	}
	if need := others.need(); c.From == FromVoting && others.live < need {
		return refuse(Refused, "without its vote %d voters remain, of which %d live, and a majority of them is %d: they could not go on", others.voters, others.live, need)
	}
	if others.candidates == 0 {
		return refuse(Refused, "nobody else could lead: of %d other voters %d live, and none of those may lead and is willing to", others.voters, others.live)
	}
	return done()
}

// electorate counts voters: members that are no observers.
type electorate struct {
	voters     int
	live       int // those with a session
	candidates int // of the live, those that may lead and do not refuse to
}

func (e electorate) need() int { return e.voters/2 + 1 }

// electorate counts the voters other than the member named.
func (d *data) electorate(without string) (e electorate) {
	for _, m := range d.peers.members.all() {
		flags := d.peers.memberFlags(m.ID)
		if m.ID == without || flags.Observer {
			continue
		}
		e.voters++
		id, live := d.peers.sessionOf.get([]byte(m.ID))
		if !live {
			continue
		}
		e.live++
		if s, _ := d.peers.sessions.get(tokenKey(id)); s.Refuses == "" && !flags.Maintenance {
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
func (c Observe) Validate() error { return c.Member.validate() }

func applyObserve(t *txn, c Observe) Result {
	if res := applyUseJoinToken(t, UseJoinToken(c)); res.Code != OK {
		return res
	}
	t.peers.putMemberFlags(t.peers.memberFlags(c.Member.ID).with(FromVoting, true, 0))
	if t.electorate("").voters == 0 {
		return refuse(Refused, "the only voter has this name or address: an observer cannot take its place")
	}
	return done()
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
		return invalid("no address")
	}
	for _, address := range []string{c.Address, c.Gossip, c.API} {
		if err := validAddress(address); err != nil {
			return err
		}
	}
	return validID("server ID", c.Peer)
}

func applyMoveMember(t *txn, c MoveMember) Result {
	m, ok := t.peers.members.get([]byte(c.Peer))
	if !ok {
		return refuse(NotFound, "peer %s is not a member of this cluster", c.Peer)
	}
	for _, other := range t.peers.members.all() {
		if other.ID != m.ID && (other.Address == c.Address || c.Gossip != "" && other.Gossip == c.Gossip) {
			return refuse(Conflict, "peer %s (%s) has the address %s: move or remove that one first", other.ID, other.Name, c.Address)
		}
	}
	m.Address = c.Address
	if c.Gossip != "" {
		m.Gossip = c.Gossip
	}
	if c.API != "" {
		m.API = c.API
	}
	t.peers.putMember(m)
	t.recordMember(ActionMoved, m.ID, "address", m.Address)
	return done()
}

// MemberFlags returns what was decided of a member; the zero value but for its
// Peer if nothing was.
func (v View) MemberFlags(id string) MemberFlags { return v.d.peers.memberFlags(id) }

// AllMemberFlags returns all that was decided, in the order of server IDs.
func (v View) AllMemberFlags() []MemberFlags { return values(v.d.peers.flags.all()) }

// Voters returns the members that vote, or are about to, in the order of their
// IDs: all but observers.
func (v View) Voters() []Member {
	var out []Member
	for _, m := range v.Members() {
		if !v.MemberFlags(m.ID).Observer {
			out = append(out, m)
		}
	}
	return out
}

// VoterSessions returns the live sessions of voters, oldest first: observers
// count in no median and no majority.
func (v View) VoterSessions() []Session {
	if v.d.peers.flags.size() == 0 {
		return v.Sessions()
	}
	var out []Session
	for _, s := range v.Sessions() {
		if !v.MemberFlags(s.Peer).Observer {
			out = append(out, s)
		}
	}
	return out
}

func checkMemberFlags(d *data, p *problems) {
	for key, s := range d.peers.flags.all() {
		p.want(string(key) == s.Peer, "what was decided of %s is filed under %q", s.Peer, key)
		p.want(d.peers.members.has(key), "something was decided of %s, which is not a member", s.Peer)
		p.want(!s.IsZero(), "flags of %s that say nothing", s.Peer)
		p.want(s.MaintenanceWall == 0 || s.Maintenance, "%s is not in maintenance, but since %d", s.Peer, s.MaintenanceWall)
	}
	if d.cluster.ID != "" && d.peers.members.size() > 0 {
		p.want(d.electorate("").voters > 0, "a founded cluster has no voter")
	}
}

// observes says whether a session is an observer's.
func (v View) observes(session fencing.Token) bool {
	if v.d.peers.flags.size() == 0 {
		return false
	}
	s, _ := v.Session(session)
	return v.MemberFlags(s.Peer).Observer
}

// voters counts the members that are no observers.
func (p *peers) voters() int {
	n := p.members.size()
	for _, s := range p.flags.all() {
		if s.Observer {
			n--
		}
	}
	return n
}
