package fsm

import (
	"fmt"
	"strings"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// View is one immutable state. It is a reference: copying it costs nothing and
// any number of goroutines may read it. Get one from [State.View]; the zero
// View holds nothing and must not be used.
type View struct{ d *data }

// Index returns the index of the last applied entry; entries that are no
// commands do not count.
func (v View) Index() uint64 { return v.d.position.Index }

// Term returns the raft term of the last applied entry.
func (v View) Term() uint64 { return v.d.position.Term }

// Now returns cluster time as of the last applied entry.
func (v View) Now() Time { return v.d.position.Now }

// Base returns what is added to an index to make a token.
func (v View) Base() uint64 { return v.d.cluster.Base }

// Floor returns the greatest token that a leadership was ever granted. Unlike
// the leadership it survives a restore.
func (v View) Floor() fencing.Token { return v.d.position.Floor }

// Incarnation returns the cluster's incarnation, 0 before it is founded.
func (v View) Incarnation() uint64 { return v.d.cluster.Incarnation }

// ClusterID returns the cluster's UUID, "" before it is founded.
func (v View) ClusterID() string { return v.d.cluster.ID }

// ClusterVersion returns the log version that every member knows: the least of
// all. Without members it is 1, the first there was.
func (v View) ClusterVersion() int { return max(v.d.peers.version, 1) }

// Admits returns an error if a command must not be proposed yet: an older peer would
// stop at its kind (promise 8).
func (v View) Admits(c Command) error {
	row, known := rowOf(c)
	if !known || row.kind.Ignorable() {
		return nil // Encode refuses what is no command of the log
	}
	return v.needs(fmt.Sprintf("'%s'", row.name), row.since)
}

// AdmitsEvent is Admits for the requests of workers. The log has known all events
// from its first version on, but workers of the release that had no other claim a
// request of one that came later, do nothing, and do not give it back.
func (v View) AdmitsEvent(e Event) error {
	switch e {
	case EventReapply, EventEnroll, EventAdopt:
		return v.needs(fmt.Sprintf("'%v'", e), 2)
	default:
		return nil
	}
}

func (v View) needs(what string, version int) error {
	if v.ClusterVersion() >= version {
		return nil
	}
	return refuse(Refused, "%s needs log version %d, and of this cluster's peers %s not know it: upgrade trivet there", what, version, v.older(version)).Err()
}

// older names, with its verb, who does not know a log version.
func (v View) older(version int) string {
	var names []string
	for _, m := range v.Members() {
		if m.Version < version {
			names = append(names, m.Name)
		}
	}
	if len(names) == 1 {
		return names[0] + " does"
	}
	return strings.Join(names, ", ") + " do"
}

// Secrets returns the cluster's keys.
func (v View) Secrets() Secrets {
	c := v.d.cluster
	return Secrets{CACert: c.CACert, CAKey: c.CAKey, GossipKey: c.GossipKey}
}

// CACert returns the certificate of the cluster's CA as PEM; it is no secret.
func (v View) CACert() []byte { return v.d.cluster.CACert }

// Leadership returns the present leadership. Whether its peer still leads is
// for raftstore to say.
func (v View) Leadership() Leadership { return v.d.lead }

// MemberNames returns the server ID of each member, followed by its name.
func (v View) MemberNames() (pairs []string) {
	for _, m := range v.Members() {
		pairs = append(pairs, m.ID, m.Name)
	}
	return pairs
}

// Member returns a member by its server ID.
func (v View) Member(id string) (Member, bool) { return v.d.peers.members.get([]byte(id)) }

// Members returns all members in the order of their IDs.
func (v View) Members() []Member { return values(v.d.peers.members.all()) }

// Session returns a live session by its ID.
func (v View) Session(id fencing.Token) (Session, bool) {
	return v.d.peers.sessions.get(tokenKey(id))
}

// SessionOf returns the live session of a peer.
func (v View) SessionOf(peer string) (Session, bool) {
	id, ok := v.d.peers.sessionOf.get([]byte(peer))
	if !ok {
		return Session{}, false
	}
	return v.Session(id)
}

// Sessions returns the live sessions, oldest first.
func (v View) Sessions() []Session { return values(v.d.peers.sessions.all()) }

// JoinTokens returns the join tokens that may still be used, by ID.
func (v View) JoinTokens() []JoinToken { return values(v.d.joins.all()) }

// Setting returns a setting.
func (v View) Setting(key string) (Setting, bool) { return v.d.settings.get([]byte(key)) }

// Settings returns all settings in the order of their keys.
func (v View) Settings() []Setting { return values(v.d.settings.all()) }

// PassDoor returns what is recorded of the pass rule, AddressDoor of the
// floating IP.
func (v View) PassDoor() Door { return v.d.doors.Pass }

// AddressDoor returns what is recorded of the floating IP.
func (v View) AddressDoor() Door { return v.d.doors.Address }

// Requests returns how many results the request table keeps.
func (v View) Requests() int { return v.d.requests.byID.size() }
