package membership

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// SessionTTL is how long a session lasts after its newest renewal, in cluster
// time (docs/design.md#sessions).
const SessionTTL = 10 * time.Second

// maxRefusal bounds the text of why a peer does not want to lead.
const maxRefusal = 4096

const maxBoot = 64 // bytes of a boot ID

// Session is a peer's presence in the log. It ends when its ttl ran out in
// cluster time, when its peer opens another, or when the peer is removed;
// never on a suspicion of gossip (docs/design.md#sessions).
type Session struct {
	ID      fencing.Token `cbor:"1,keyasint"` // token of the OpenSession entry
	Peer    string        `cbor:"2,keyasint"` // server ID
	Boot    string        `cbor:"3,keyasint"`
	Version int           `cbor:"4,keyasint"`           // log version, as it was announced
	Binary  string        `cbor:"5,keyasint,omitempty"` // version of the build
	API     string        `cbor:"6,keyasint,omitempty"` // host:port
	Opened  entry.Time    `cbor:"7,keyasint"`
	Expires entry.Time    `cbor:"8,keyasint"`
	// As of the newest renewal:
	Applied    uint64 `cbor:"9,keyasint,omitempty"`  // index
	WallMillis int64  `cbor:"10,keyasint,omitempty"` // the peer's wall clock
	SkewMillis int64  `cbor:"11,keyasint,omitempty"` // that, less the leader's
	Refuses    string `cbor:"12,keyasint,omitempty"` // why it does not want to lead
	// Answered is the lowest request whose result is still wanted.
	Answered entry.RequestID `cbor:"13,keyasint,omitzero"`
	// Behind is how many entries the peer had yet to apply when its newest
	// renewal was applied; the log's own length before the first.
	Behind uint64 `cbor:"14,keyasint,omitempty"`
	// NoIronic says that the peer cannot reach Ironic.
	NoIronic bool `cbor:"15,keyasint,omitempty"`
}

// OpenSession opens a session for a member; its ID is the Token of the result, whose
// Value is an Opened.
// An older session of the same peer ends, if it is Instead. What the member table says of the
// peer's version is brought up to date, which may raise the cluster's version. It
// never lowers it: the state may hold what an older binary cannot read, and is
// judged by rules that it does not know. Such a session is refused as Outdated.
type OpenSession struct {
	Peer       string `cbor:"1,keyasint"` // server ID
	Boot       string `cbor:"2,keyasint"` // new at every start
	Version    int    `cbor:"3,keyasint"` // log version, as it is announced
	Binary     string `cbor:"4,keyasint,omitempty"`
	API        string `cbor:"5,keyasint,omitempty"` // host:port
	WallMillis int64  `cbor:"6,keyasint,omitempty"`
	// Unfinished is what the peer's last process left, if it was killed.
	Unfinished []introspection.Unfinished `cbor:"7,keyasint,omitempty"` // at most MaxUnfinished
	// Instead is the session of the peer that this one takes the place of, zero if the log has
	// none: another is a Conflict, whose Value is an Opened that names it. So a request that
	// arrives late, when its process has given it up or is gone, ends no session that is in use.
	// It needs log version 3; without it any session ends.
	Instead *fencing.Token `cbor:"8,keyasint,omitempty"`
}

// Since is the log version that a member must know to read the command.
func (c OpenSession) Since() int { return entry.SinceField(c.Instead != nil, 3) }

// MaxUnfinished is how many notes a peer brings along.
const MaxUnfinished = 256

// ValidBoot says what is wrong with the process that a command names.
func ValidBoot(peer, boot string, version int) error {
	if err := valid.ID("server ID", peer); err != nil {
		return err
	}
	if version < 0 || version > maxVersion {
		return fmt.Errorf("log version %d is out of range", version)
	}
	return valid.Length("boot ID", boot, 1, maxBoot)
}

// Validate implements Command.
func (c OpenSession) Validate() error {
	if err := ValidBoot(c.Peer, c.Boot, c.Version); err != nil {
		return err
	}
	if c.Version < 1 {
		return errors.New("no log version")
	}
	if err := valid.Length("API address", c.API, 0, valid.MaxAddress); err != nil {
		return err
	}
	if len(c.Unfinished) > MaxUnfinished {
		return fmt.Errorf("%d notes of unfinished requests, allowed are %d", len(c.Unfinished), MaxUnfinished)
	}
	return cmp.Or(valid.Each(c.Unfinished, introspection.Unfinished.Validate),
		valid.Length("binary version", c.Binary, 0, maxBinary))
}

// Apply implements entry.Change.
func (c OpenSession) Apply(t Txn) entry.Result {
	m, ok := t.members.Get([]byte(c.Peer))
	if !ok {
		return entry.Refuse(entry.Refused, "peer %s is not a member of this cluster", c.Peer)
	}
	if at := t.Version; c.Version < at {
		return entry.Refuse(entry.Outdated,
			"peer %s knows log version %d, and the log of this cluster is of version %d: upgrade trivet on this host", m.Name,
			c.Version, at)
	}
	old, live := t.sessionOf.Get([]byte(c.Peer))
	if c.Instead != nil && *c.Instead != old {
		res := entry.Refuse(entry.Conflict, "peer %s has session %v, and one is opened in the place of %v", m.Name, old,
			*c.Instead)
		res.Value = entry.Answer(Opened{Session: old}).Value
		return res
	}
	restarted := ""
	if live {
		t.Nodes.Learn(old, c.Unfinished)
		t.endSession(old)
		restarted = "true"
	}
	s := Session{
		ID: t.Token, Peer: c.Peer, Boot: c.Boot, Version: c.Version, Binary: c.Binary, API: c.API,
		Opened: t.Now(), WallMillis: c.WallMillis, SkewMillis: skew(t.Header, c.WallMillis), Behind: t.Position.Index,
	}
	t.extend(s)
	m.Version, m.Binary, m.API = c.Version, c.Binary, cmp.Or(c.API, m.API)
	t.putMember(m)
	t.forgetFormer(func(f FormerMember) bool { return f.Became == m.ID }) // it has its answer
	t.recordMember(eventring.ActionConnected, c.Peer, "binary", c.Binary, "restarted", restarted)
	if !t.Version2() {
		return entry.Done()
	}
	return entry.Answer(Opened{Applied: t.Progress(c.Peer)})
}

// skew is how far a peer's wall clock is ahead of the leader's. The command's
// way to the leader makes it look a little slow.
func skew(h entry.Header, wall int64) int64 {
	if wall == 0 || h.WallMillis == 0 {
		return 0
	}
	return wall - h.WallMillis
}

// extend stores a session with a full ttl from now.
func (t Txn) extend(s Session) {
	t.Disarm(s.Expires, dueSession, table.TokenKey(s.ID))
	s.Expires = t.Now().Add(SessionTTL)
	t.putSession(s)
}

func (t Txn) putSession(s Session) {
	t.sessions.Put(table.TokenKey(s.ID), s)
	t.sessionOf.Put([]byte(s.Peer), s.ID)
	t.Arm(s.Expires, dueSession, table.TokenKey(s.ID))
}

// RenewSession extends a session by its ttl and brings news of its peer.
type RenewSession struct {
	Session    fencing.Token `cbor:"1,keyasint"`
	Applied    uint64        `cbor:"2,keyasint,omitempty"` // index
	WallMillis int64         `cbor:"3,keyasint,omitempty"`
	Refuses    string        `cbor:"4,keyasint,omitempty"` // why the peer does not want to lead; at most 4096 bytes
	NoIronic   bool          `cbor:"5,keyasint,omitempty"` // the peer cannot reach Ironic
}

// Validate implements Command.
func (c RenewSession) Validate() error {
	if c.Session.IsZero() {
		return errors.New("no session")
	}
	return valid.Length("refusal to lead", c.Refuses, 0, maxRefusal)
}

// Apply implements entry.Change.
func (c RenewSession) Apply(t Txn) entry.Result {
	s, _ := t.Session(c.Session)
	if !t.MemberSession(c.Session) {
		return entry.Refuse(entry.SessionEnded, "session %v has ended", c.Session)
	}
	s.Applied, s.WallMillis, s.SkewMillis, s.Refuses = c.Applied, c.WallMillis, skew(t.Header, c.WallMillis), c.Refuses
	s.NoIronic = c.NoIronic
	s.Behind = t.Position.Index - min(c.Applied, t.Position.Index)
	t.extend(s)
	t.advance(s.Peer, c.Applied)
	return entry.Done()
}

// EndSession ends a session before its ttl: its peer stops. Ending one that is
// over is a success.
type EndSession struct {
	Session fencing.Token `cbor:"1,keyasint"`
}

// Validate implements Command.
func (c EndSession) Validate() error {
	if c.Session.IsZero() {
		return errors.New("no session")
	}
	return nil
}

// Apply implements entry.Change.
func (c EndSession) Apply(t Txn) entry.Result {
	if s, ok := t.sessions.Get(table.TokenKey(c.Session)); ok {
		t.recordMember(eventring.ActionStopped, s.Peer)
	}
	t.endSession(c.Session)
	return entry.Done()
}

// endSession takes away all that lives in a session: claims, results, votes.
func (t Txn) endSession(id fencing.Token) {
	s, ok := t.sessions.Get(table.TokenKey(id))
	if !ok {
		return
	}
	t.Disarm(s.Expires, dueSession, table.TokenKey(id))
	t.sessions.Drop(table.TokenKey(id))
	t.sessionOf.Drop([]byte(s.Peer))
	t.Results.DropSession(id)
	t.Nodes.LoseAll(id)
	t.Kube.DropVotesOf(id)
}

// sessionEnds ends the session of a peer that was not heard for its whole time.
func (t Txn) sessionEnds(id []byte) {
	if s, ok := t.sessions.Get(id); ok && t.members.Has([]byte(s.Peer)) {
		t.recordMember(eventring.ActionLost, s.Peer)
	}
	t.endSession(table.TailToken(id))
}

// Answered takes note that a session wants the results below a request no more.
func (t Txn) Answered(s Session, below entry.RequestID) {
	s.Answered = below
	t.sessions.Put(table.TokenKey(s.ID), s)
}
