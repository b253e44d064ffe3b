// Package membership holds the peers of the cluster: the members with what operators decided of
// them, their sessions, those that were members once, the tokens by which hosts join, and the
// keys of gossip.
//
// The commands: [PutMember], [RemoveMember] and [MoveMember] of members, [Exclude] and
// [Observe] of their flags, [OpenSession], [RenewSession] and [EndSession], [Rejoin] and
// [FormerHeard] of former members, [AddJoinToken], [UseJoinToken] and [RevokeJoinToken], and
// [RotateGossipKey], [ConfirmGossipKeys] and [AdvanceGossipKeys].
//
// A session's end takes with it what its peer had claimed and voted, and doors wait for former
// members: so this domain stands above those that have the claims, the votes and the doors.
package membership

import (
	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/fsm/table"
)

// Domain is all that the log, snapshots, Check and deadlines know of peers.
var Domain = entry.Domain[Txn]{
	Verbs: []entry.Verb[Txn]{
		entry.NewVerb[Txn, OpenSession](10, "open session"),
		entry.NewVerb[Txn, RenewSession](11, "renew session"),
		entry.NewVerb[Txn, EndSession](12, "end session"),
		entry.NewVerb[Txn, PutMember](20, "put member"),
		entry.NewVerb[Txn, RemoveMember](21, "remove member"),
		entry.NewVerb[Txn, FormerHeard](22, "former heard").ByLeader().From(2),
		entry.NewVerb[Txn, Rejoin](23, "rejoin").From(2),
		entry.NewVerb[Txn, AddJoinToken](30, "add join token"),
		entry.NewVerb[Txn, RevokeJoinToken](31, "revoke join token"),
		entry.NewVerb[Txn, UseJoinToken](32, "use join token"),
		entry.NewVerb[Txn, Exclude](110, "exclude").From(2),
		entry.NewVerb[Txn, Observe](111, "observe").From(2),
		entry.NewVerb[Txn, MoveMember](112, "move member").From(2),
		entry.NewVerb[Txn, RotateGossipKey](114, "rotate gossip key").From(2),
		entry.NewVerb[Txn, ConfirmGossipKeys](115, "confirm gossip keys").From(2),
		entry.NewVerb[Txn, AdvanceGossipKeys](116, "advance gossip keys").ByLeader().From(2),
	},
	Sections: []entry.Section[Txn]{
		entry.Many('m', "members", func(t Txn) table.Of[Member] { return t.members }, Txn.putMember),
		entry.Many('s', "sessions", func(t Txn) table.Of[Session] { return t.sessions }, Txn.putSession),
		entry.ManyShown('j', "join tokens", func(t Txn) table.Of[JoinToken] { return t.joins }, Txn.putToken,
			func(j JoinToken) any { return dumpedJoin{ID: j.ID, Expires: j.Expires.String()} }),
		entry.Many('f', "former members", func(t Txn) table.Of[FormerMember] { return t.former },
			func(t Txn, f FormerMember) { t.former.Put([]byte(f.ID), f) }),
		entry.Many('A', "progress", func(t Txn) table.Of[Progress] { return t.progress },
			func(t Txn, p Progress) { t.progress.Put([]byte(p.Peer), p) }),
		entry.Many('S', "member flags", func(t Txn) table.Of[MemberFlags] { return t.flags },
			func(t Txn, f MemberFlags) { t.flags.Put([]byte(f.Peer), f) }),
		entry.Many('X', "removed peers", func(t Txn) table.Of[RemovedPeer] { return t.removed },
			func(t Txn, r RemovedPeer) { t.removed.Put([]byte(r.ID), r) }),
		entry.Seldom('G', "gossip keys",
			func(t Txn) *gossip { return &t.gossip }).Shown(func(t Txn) any { return t.GossipRotation() }),
	},
	Checks: entry.Checks[Txn]{
		checkMembers, checkFlags, checkRemoved, checkProgress, checkFormer, checkSessions, checkTokens, checkGossip,
	},
	Ends: []entry.Ending[Txn]{
		entry.Expiring(dueSession, func(t Txn) table.Of[Session] { return t.sessions },
			func(s Session) (entry.Time, bool) { return s.Expires, true }, Txn.sessionEnds),
		entry.Expiring(dueJoin, func(t Txn) table.Of[JoinToken] { return t.joins },
			func(j JoinToken) (entry.Time, bool) { return j.Expires, true }, func(t Txn, id []byte) { t.joins.Drop(id) }),
	},
}

// The classes of the deadlines that end a session and a join token.
const (
	dueSession entry.Class = 's'
	dueJoin    entry.Class = 'j'
)

// Tables are the members, their sessions, and what is handed out to them.
type Tables struct {
	members   table.Of[Member]        // by ID
	sessions  table.Of[Session]       // by ID
	sessionOf table.Of[fencing.Token] // by server ID; each peer has at most one
	flags     table.Of[MemberFlags]   // by server ID
	removed   table.Of[RemovedPeer]   // by server ID
	progress  table.Of[Progress]      // by server ID
	former    table.Of[FormerMember]  // by server ID
	joins     table.Of[JoinToken]     // by ID
	gossip    gossip
}

// Txn is one entry at work on the tables of peers, and on what goes with them.
type Txn struct {
	*entry.Txn
	*Tables
	Nodes   introspection.Txn                               // claims end with their session
	Kube    kubestate.Txn                                   // and votes
	Doors   doors.Txn                                       // wait for former members
	Results interface{ DropSession(session fencing.Token) } // of requests, which their session collects
}
