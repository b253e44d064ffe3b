package membership

import (
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
)

// Member returns a member by its server ID.
func (s *Tables) Member(id string) (Member, bool) { return s.members.Get([]byte(id)) }

// Members returns all members in the order of their IDs.
func (s *Tables) Members() []Member { return table.List(s.members.All()) }

// MemberNames returns the server ID of each member, followed by its name.
func (s *Tables) MemberNames() (pairs []string) {
	for _, m := range s.members.All() {
		pairs = append(pairs, m.ID, m.Name)
	}
	return pairs
}

// MemberName implements entry.Peers.
func (s *Tables) MemberName(server string) (name string, member bool) {
	m, member := s.Member(server)
	return m.Name, member
}

// PeerOf implements entry.Peers.
func (s *Tables) PeerOf(session fencing.Token) (server string, live bool) {
	of, live := s.Session(session)
	return of.Peer, live
}

// Session returns a live session by its ID.
func (s *Tables) Session(id fencing.Token) (Session, bool) { return s.sessions.Get(table.TokenKey(id)) }

// SessionOf returns the live session of a peer.
func (s *Tables) SessionOf(peer string) (Session, bool) {
	id, ok := s.sessionOf.Get([]byte(peer))
	if !ok {
		return Session{}, false
	}
	return s.Session(id)
}

// Sessions returns the live sessions, oldest first.
func (s *Tables) Sessions() []Session { return table.List(s.sessions.All()) }

// MemberFlags returns what was decided of a member; the zero value but for its
// Peer if nothing was.
func (s *Tables) MemberFlags(id string) MemberFlags {
	if f, ok := s.flags.Get([]byte(id)); ok {
		return f
	}
	return MemberFlags{Peer: id}
}

// AllMemberFlags returns all that was decided, in the order of server IDs.
func (s *Tables) AllMemberFlags() []MemberFlags { return table.List(s.flags.All()) }

// Voters returns the members that vote, or are about to, in the order of their
// IDs: all but observers.
func (s *Tables) Voters() []Member {
	return slices.DeleteFunc(s.Members(), func(m Member) bool { return s.MemberFlags(m.ID).Observer })
}

// VoterSessions returns the live sessions of voters, oldest first: observers
// count in no median and no majority.
func (s *Tables) VoterSessions() []Session {
	if s.flags.Size() == 0 {
		return s.Sessions()
	}
	return slices.DeleteFunc(s.Sessions(), func(of Session) bool { return s.MemberFlags(of.Peer).Observer })
}

// Observes says whether a session is an observer's.
func (s *Tables) Observes(session fencing.Token) bool {
	of, _ := s.Session(session)
	return s.MemberFlags(of.Peer).Observer
}

// FormerMembers returns the former members, in the order of their IDs.
func (s *Tables) FormerMembers() []FormerMember { return table.List(s.former.All()) }

// FormerMember returns the record of a former member, by its server ID.
func (s *Tables) FormerMember(id string) (FormerMember, bool) {
	return s.former.Get([]byte(id))
}

// MayRun returns the peers of this history, other than one, that may run or be
// started: its members, and former members that have not rejoined. It is what
// Refound of package fsm must be told of: in Former, or not at all if it is lost.
func (s *Tables) MayRun(except string) []FormerMember {
	var out []FormerMember
	for _, m := range s.Members() {
		if m.ID != except {
			f, _ := s.mayRun(m.ID)
			out = append(out, f)
		}
	}
	for _, f := range s.FormerMembers() {
		if f.ID != except && f.Became == "" {
			f.Heard = false
			out = append(out, f)
		}
	}
	return out
}

// mayRun returns what MayRun says of one peer; ok is false if it is not among them.
func (s *Tables) mayRun(id string) (f FormerMember, ok bool) {
	if m, member := s.members.Get([]byte(id)); member {
		return FormerMember{
			ID: m.ID, Name: m.Name, Address: m.Address, Gossip: m.Gossip, Observer: s.MemberFlags(id).Observer,
		}, true
	}
	f, ok = s.former.Get([]byte(id))
	return f, ok && f.Became == ""
}

// AwaitedFormers names the former members that were not heard under the present
// leadership, "" if there are none: while there are, no door opens.
func (s *Tables) AwaitedFormers() string {
	var names []string
	for _, f := range s.former.All() { // at most MaxFormer
		if !f.Heard {
			names = append(names, f.String())
		}
	}
	return strings.Join(names, ", ")
}
