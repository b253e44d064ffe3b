package fsm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/expectations"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/operators"
	"github.com/trivet-ha/trivet/fsm/relays"
)

// View is one immutable state. It is a reference: copying it costs nothing and
// any number of goroutines may read it. Get one from [State.View]; the zero
// View holds nothing and must not be used. It has the methods of
// the Tables of all domains below this package as well, such as
// [introspection.Tables] and [membership.Tables].
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

// ClusterVersion returns the log version in force, which every member has announced:
// the least of all. Without members it is 1, the first there was.
func (v View) ClusterVersion() int { return max(v.data.shared.Version, 1) }

// Admits returns an error if a command must not be proposed yet: an older peer would
// stop at its kind (promise 8).
func (v View) Admits(c Command) error {
	verb, known := verbOf(c)
	if !known || Kind(verb.Kind).Ignorable() {
		return nil // Encode refuses what is no command of the log
	}
	since := verb.Since
	if field, ok := c.(interface{ Since() int }); ok {
		since = max(since, field.Since())
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

// needs refuses what not every member has announced.
func (v View) needs(what string, version int) error {
	if v.ClusterVersion() >= version {
		return nil
	}
	var older []string
	for _, m := range v.Members() {
		if m.Version < version {
			older = append(older, m.Name)
		}
	}
	have := "have"
	if len(older) == 1 {
		have = "has"
	}
	return entry.Refuse(Refused,
		"%s needs log version %d, which of this cluster's peers %s %s not announced: upgrade trivet there, then run "+
			"'trivet upgrade finalize'", what, version, strings.Join(older, ", "), have).Err()
}

// Secrets returns the cluster's keys.
func (v View) Secrets() Secrets {
	c := v.data.shared.Cluster
	return Secrets{CACert: c.CACert, CAKey: c.CAKey, GossipKey: c.GossipKey}
}

// Leadership returns the present leadership. Whether its peer still leads is
// for raftstore to say.
func (v View) Leadership() entry.Leadership { return v.data.shared.Lead }

// Requests returns how many results the request table keeps.
func (v View) Requests() int { return v.data.requests.byID.Size() }

// SameGroup says that a component's members have not changed since an earlier view. It may
// fail to say so of views before and after a snapshot.
func (v View) SameGroup(earlier View, component string) bool {
	return leases.SameGroup(&v.leaseTables, &earlier.leaseTables, component)
}

// RelayRepeated finds the relay that a document repeats, were it accepted now.
func (v View) RelayRepeated(document blobs.Hash) (relays.Relay, bool) {
	return relaysOf(v.data.txn()).Repeated(document)
}

// RelayRoom returns why there is no room for a document, nil if there is. A
// refusal that the state foresees needs no entry of the log.
func (v View) RelayRoom(c relays.Accept) error { return relaysOf(v.data.txn()).Room(c).Err() }

// AllowedChangedSince is for the whitelist what PortsChangedSince is for the
// blacklist; ask Allowed.
func (v View) AllowedChangedSince(index uint64) (macs []string, ok bool) {
	return v.data.AllowedChanged(index, v.Index())
}

// SentDocument is what a ramdisk sent, and the token of the relay or the introspection
// that brought it.
type SentDocument struct {
	Document blobs.Hash
	Sent     fencing.Token
}

// Sent lists the documents of a node's inspections that are stored, the newest first:
// those that Ironic took before and after the node's own record began, and those that its
// verdict keeps.
func (v View) Sent(node string) []SentDocument {
	rec, _ := v.Record(node)
	var before, after, own []SentDocument
	for relay := range v.RelaysOf(node) {
		sent := SentDocument{relay.Document, relay.Sequence}
		switch {
		case relay.State != relays.Taken: // of a stranger, perhaps
		case relay.Sequence < rec.Begun:
			before = append([]SentDocument{sent}, before...)
		default:
			after = append([]SentDocument{sent}, after...)
		}
	}
	for i, hash := range [...]blobs.Hash{rec.Unprocessed, rec.Earlier} {
		if !hash.IsZero() {
			own = append(own, SentDocument{hash, rec.Begun - fencing.Token(i)})
		}
	}
	all := slices.Concat(after, own, before)
	verdict, judged := v.Verdict(node)
	if !judged {
		return all
	}
	at := slices.IndexFunc(all, func(s SentDocument) bool { return s.Document == verdict.Document })
	if at < 0 { // its record or relay is gone
		if at = slices.IndexFunc(all, func(s SentDocument) bool { return s.Sent < verdict.Sent }); at < 0 {
			at = len(all)
		}
		all = slices.Insert(all, at, SentDocument{verdict.Document, verdict.Sent})
	}
	if e := verdict.Earlier; !e.IsZero() &&
		!slices.ContainsFunc(all, func(s SentDocument) bool { return s.Document == e }) {
		all = slices.Insert(all, at+1, SentDocument{e, 0})
	}
	return all
}

// SameDocuments says that no document was stored, deleted or judged, and no expectation
// changed, from one view to a later one. It may fail to say so.
func SameDocuments(earlier, v View) bool {
	return introspection.SameRecords(&v.nodeTables, &earlier.nodeTables) &&
		relays.SameRelays(&v.relayTables, &earlier.relayTables) &&
		expectations.SameExpectations(&v.expectationTables, &earlier.expectationTables)
}

// Blob returns a stored document.
func (v View) Blob(hash blobs.Hash) (blobs.Blob, bool) { return v.data.blobs.Get(hash) }

// PortsChangedSince returns, in order and each once, the MACs that joined or
// left the blacklist after the entry at index; Denied tells where each is now.
// ok is false when this view cannot tell, because too much changed since, or it
// was restored from a later snapshot, or it is older than index: compare the
// whole list then. It costs what it returns.
func (v View) PortsChangedSince(index uint64) (macs []string, ok bool) {
	return v.data.DeniedChanged(index, v.Index())
}

// Events returns the ring of events.
func (v View) Events() eventring.Ring { return v.data.shared.Events }

// GossipKeys returns the keys that a peer accepts, first the one it speaks
// under. They are secrets.
func (v View) GossipKeys() [][]byte { return v.data.GossipKeys(v.data.shared.Cluster.GossipKey) }

// SameRights reports whether two views refuse the same certificates: those of
// removed peers and of revoked operators. It compares pointers, so that it may
// say no where nothing has changed.
func (v View) SameRights(other View) bool {
	return membership.SameRemoved(&v.memberTables, &other.memberTables) &&
		operators.Same(&v.operatorTables, &other.operatorTables)
}

// KubeVotes counts what live peers say of a kube node: it is silent, it answers.
// A peer without an opinion is neither. Voters are all members but observers,
// those included that are down or have yet to be promoted: a majority is of
// these. An observer's opinion counts for nothing.
func (v View) KubeVotes(cluster, uid string) (silent, answers, voters int) {
	for _, b := range v.KubeBallots(cluster, uid) {
		switch {
		case v.Observes(b.Session):
		case b.Silent:
			silent++
		default:
			answers++
		}
	}
	return silent, answers, len(v.Voters())
}

// InspectedEnds reports whether what is recorded as inspected by Ironic ends by itself.
func InspectedEnds(v View) bool { return introspection.InspectedEnds(&v.nodeTables) }
