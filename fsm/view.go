package fsm

import (
	"fmt"
	"iter"
	"strings"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/fsm/table"
)

// View is one immutable state. It is a reference: copying it costs nothing and
// any number of goroutines may read it. Get one from [State.View]; the zero
// View holds nothing and must not be used. It has the methods of
// [introspection.Tables], [leases.Tables], [kubestate.Tables], [zones.Tables],
// [relays.Tables], [ruleset.Tables] and [nodesync.Tables] as well.
type View struct{ *data }

// Index returns the index of the last applied entry; entries that are no
// commands do not count.
func (v View) Index() uint64 { return v.data.shared.Position.Index }

// Term returns the raft term of the last applied entry.
func (v View) Term() uint64 { return v.data.shared.Position.Term }

// Now returns cluster time as of the last applied entry.
func (v View) Now() Time { return v.data.shared.Position.Now }

// Base returns what is added to an index to make a token.
func (v View) Base() uint64 { return v.data.shared.Cluster.Base }

// Floor returns the greatest token that a leadership was ever granted. Unlike
// the leadership it survives a restore.
func (v View) Floor() fencing.Token { return v.data.shared.Position.Floor }

// Incarnation returns the cluster's incarnation, 0 before it is founded.
func (v View) Incarnation() uint64 { return v.data.shared.Cluster.Incarnation }

// ClusterID returns the cluster's UUID, "" before it is founded.
func (v View) ClusterID() string { return v.data.shared.Cluster.ID }

// ClusterVersion returns the log version that every member knows: the least of
// all. Without members it is 1, the first there was.
func (v View) ClusterVersion() int { return max(v.data.shared.Version, 1) }

// Admits returns an error if a command must not be proposed yet: an older peer would
// stop at its kind (promise 8).
func (v View) Admits(c Command) error {
	verb, known := verbOf(c)
	if !known || Kind(verb.Kind).Ignorable() {
		return nil // Encode refuses what is no command of the log
	}
	since := verb.Since
	if field, ok := c.(interface{ since() int }); ok {
		since = max(since, field.since())
	}
	return v.needs(fmt.Sprintf("'%s'", verb.Name), since)
}

// AdmitsEvent is Admits for the requests of workers. The log has known all events
// from its first version on, but workers of the release that had no other claim a
// request of one that came later, do nothing, and do not give it back.
func (v View) AdmitsEvent(e introspection.Event) error {
	switch e {
	case introspection.EventReapply, introspection.EventEnroll, introspection.EventAdopt:
		return v.needs(fmt.Sprintf("'%v'", e), 2)
	default:
		return nil
	}
}

func (v View) needs(what string, version int) error {
	if v.ClusterVersion() >= version {
		return nil
	}
	return entry.Refuse(Refused, "%s needs log version %d, and of this cluster's peers %s not know it: upgrade trivet there", what, version, v.older(version)).Err()
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
	c := v.data.shared.Cluster
	return Secrets{CACert: c.CACert, CAKey: c.CAKey, GossipKey: c.GossipKey}
}

// CACert returns the certificate of the cluster's CA as PEM; it is no secret.
func (v View) CACert() []byte { return v.data.shared.Cluster.CACert }

// Leadership returns the present leadership. Whether its peer still leads is
// for raftstore to say.
func (v View) Leadership() Leadership { return v.data.lead }

// MemberNames returns the server ID of each member, followed by its name.
func (v View) MemberNames() (pairs []string) {
	for _, m := range v.Members() {
		pairs = append(pairs, m.ID, m.Name)
	}
	return pairs
}

// Member returns a member by its server ID.
func (v View) Member(id string) (Member, bool) { return v.data.peers.members.Get([]byte(id)) }

// Members returns all members in the order of their IDs.
func (v View) Members() []Member { return table.List(v.data.peers.members.All()) }

// Session returns a live session by its ID.
func (v View) Session(id fencing.Token) (Session, bool) {
	return v.data.peers.sessions.Get(table.TokenKey(id))
}

// SessionOf returns the live session of a peer.
func (v View) SessionOf(peer string) (Session, bool) {
	id, ok := v.data.peers.sessionOf.Get([]byte(peer))
	if !ok {
		return Session{}, false
	}
	return v.Session(id)
}

// Sessions returns the live sessions, oldest first.
func (v View) Sessions() []Session { return table.List(v.data.peers.sessions.All()) }

// JoinTokens returns the join tokens that may still be used, by ID.
func (v View) JoinTokens() []JoinToken { return table.List(v.data.joins.All()) }

// Setting returns a setting.
func (v View) Setting(key string) (Setting, bool) { return v.data.settings.Get([]byte(key)) }

// Settings returns all settings in the order of their keys.
func (v View) Settings() []Setting { return table.List(v.data.settings.All()) }

// PassDoor returns what is recorded of the pass rule, AddressDoor of the
// floating IP.
func (v View) PassDoor() Door { return v.data.doors.Pass }

// AddressDoor returns what is recorded of the floating IP.
func (v View) AddressDoor() Door { return v.data.doors.Address }

// Requests returns how many results the request table keeps.
func (v View) Requests() int { return v.data.requests.byID.Size() }

// SameGroups says that no group has changed since an earlier view. It may fail to say so
// of views before and after a snapshot.
func (v View) SameGroups(earlier View) bool {
	return leases.SameGroups(&v.leaseTables, &earlier.leaseTables)
}

// RelayRepeated finds the relay that a document repeats, were it accepted now.
func (v View) RelayRepeated(document blobs.Hash) (relays.Relay, bool) {
	return relaysOf(v.data.txn()).Repeated(document)
}

// RelayRoom returns why there is no room for a document, nil if there is. A
// refusal that the state foresees needs no entry of the log.
func (v View) RelayRoom(c relays.Accept) error { return relaysOf(v.data.txn()).Room(c).Err() }

// Overdue iterates over the active records whose deadline is not after cluster
// time, the longest overdue first. It costs what it yields.
func (v View) Overdue() iter.Seq[introspection.Record] { return v.data.OverdueAt(v.Now()) }

// AllowedChangedSince is for the whitelist what PortsChangedSince is for the
// blacklist; ask Allowed.
func (v View) AllowedChangedSince(index uint64) (macs []string, ok bool) {
	return v.data.AllowedChanged(index, v.Index())
}

// Blob returns a stored document.
func (v View) Blob(hash blobs.Hash) (blobs.Blob, bool) { return v.data.blobs.Get(hash) }
