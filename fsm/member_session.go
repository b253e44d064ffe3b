package fsm

import (
	"time"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

var sessionDomain = domain{
	verbs: []row{
		verb(10, "open session", applyOpenSession),
		verb(11, "renew session", applyRenewSession),
		verb(12, "end session", applyEndSession),
	},
	sections: []section{
		many('s', "sessions", func(d *data) table[Session] { return d.peers.sessions }, loadSession),
	},
	check: checkSessions,
	ends: []ending{
		{dueSession, (*txn).sessionEnds, func(d *data, expect expectation) {
			for key, s := range d.peers.sessions.all() {
				expect(s.Expires, key)
			}
		}},
	},
}

// SessionTTL is how long a session lasts after its newest renewal, in cluster
// time (docs/design.md#sessions).
const SessionTTL = 10 * time.Second

// maxRefusal bounds the text of why a peer does not want to lead.
const maxRefusal = 4096

// Session is a peer's presence in the log. It ends when its ttl ran out in
// cluster time, when its peer opens another, or when the peer is removed;
// never on a suspicion of gossip (docs/design.md#sessions).
type Session struct {
	ID      fencing.Token `cbor:"1,keyasint"` // token of the OpenSession entry
	Peer    string        `cbor:"2,keyasint"` // server ID
	Boot    string        `cbor:"3,keyasint"`
	Version int           `cbor:"4,keyasint"`           // log version
	Binary  string        `cbor:"5,keyasint,omitempty"` // version of the build
	API     string        `cbor:"6,keyasint,omitempty"` // host:port
	Opened  Time          `cbor:"7,keyasint"`
	Expires Time          `cbor:"8,keyasint"`
	// As of the newest renewal:
	Applied    uint64 `cbor:"9,keyasint,omitempty"`  // index
	WallMillis int64  `cbor:"10,keyasint,omitempty"` // the peer's wall clock
	SkewMillis int64  `cbor:"11,keyasint,omitempty"` // that, less the leader's
	Refuses    string `cbor:"12,keyasint,omitempty"` // why it does not want to lead
	// Answered is the lowest request whose result is still wanted.
	Answered RequestID `cbor:"13,keyasint,omitzero"`
	// Behind is how many entries the peer had yet to apply when its newest
	// renewal was applied; the log's own length before the first.
	Behind uint64 `cbor:"14,keyasint,omitempty"`
	// NoIronic says that the peer cannot reach Ironic.
	NoIronic bool `cbor:"15,keyasint,omitempty"`
}

// OpenSession opens a session for a member; its ID is the Token of the result, whose
// Value is an Opened.
// An older session of the same peer ends. What the member table says of the
// peer's version is brought up to date, which may raise the cluster's version. It
// never lowers it: the state may hold what an older binary cannot read, and is
// judged by rules that it does not know. Such a session is refused as Outdated.
type OpenSession struct {
	Peer       string `cbor:"1,keyasint"` // server ID
	Boot       string `cbor:"2,keyasint"` // new at every start
	Version    int    `cbor:"3,keyasint"` // log version
	Binary     string `cbor:"4,keyasint,omitempty"`
	API        string `cbor:"5,keyasint,omitempty"` // host:port
	WallMillis int64  `cbor:"6,keyasint,omitempty"`
	// Unfinished is what the peer's last process left, if it was killed.
	Unfinished []Unfinished `cbor:"7,keyasint,omitempty"` // at most MaxUnfinished
}

// MaxUnfinished is how many notes a peer brings along.
const MaxUnfinished = 256

// Unfinished says what a process was doing for a request when it ended. It
// counts if the request is still claimed by the session of that process.
type Unfinished struct {
	Request fencing.Token `cbor:"1,keyasint"` // its sequence
	Hook    string        `cbor:"2,keyasint"`
}

// Validate says why a note cannot go into the log.
func (u Unfinished) Validate() error {
	if u.Request.IsZero() {
		return invalid("no request")
	}
	if !utf8.ValidString(u.Hook) {
		return invalid("the name of a hook is not UTF-8")
	}
	return within("hook", u.Hook, 1, MaxHook)
}

// Validate implements Command.
func (c OpenSession) Validate() error {
	if err := validBoot(c.Peer, c.Boot, c.Version); err != nil {
		return err
	}
	if c.Version < 1 {
		return invalid("no log version")
	}
	if err := within("API address", c.API, 0, maxAddress); err != nil {
		return err
	}
	if len(c.Unfinished) > MaxUnfinished {
		return invalid("%d notes of unfinished requests, allowed are %d", len(c.Unfinished), MaxUnfinished)
	}
	for _, u := range c.Unfinished {
		if err := u.Validate(); err != nil {
			return err
		}
	}
	return within("binary version", c.Binary, 0, maxBinary)
}

func applyOpenSession(t *txn, c OpenSession) Result {
	m, ok := t.peers.members.get([]byte(c.Peer))
	if !ok {
		return refuse(Refused, "peer %s is not a member of this cluster", c.Peer)
	}
	if at := t.peers.version; c.Version < at {
		return refuse(Outdated, "peer %s knows log version %d, and the log of this cluster is of version %d: upgrade trivet on this host", m.Name, c.Version, at)
	}
	restarted := ""
	if old, ok := t.peers.sessionOf.get([]byte(c.Peer)); ok {
		t.learn(old, c.Unfinished)
		t.endSession(old)
		restarted = "true"
	}
	s := Session{
		ID: t.token, Peer: c.Peer, Boot: c.Boot, Version: c.Version, Binary: c.Binary, API: c.API,
		Opened: t.now(), WallMillis: c.WallMillis, SkewMillis: t.skew(c.WallMillis), Behind: t.position.Index,
	}
	t.peers.sessionOf.put([]byte(c.Peer), s.ID)
	t.extend(s)
	m.Version, m.Binary = c.Version, c.Binary
	if c.API != "" {
		m.API = c.API
	}
	t.peers.putMember(m)
	t.forgetFormer(func(f FormerMember) bool { return f.Became == m.ID }) // it has its answer
	t.recordMember(ActionConnected, c.Peer, "binary", c.Binary, "restarted", restarted)
	return t.opened(c.Peer)
}

// learn notes what a session that is over was doing for its requests.
func (t *txn) learn(session fencing.Token, all []Unfinished) {
	for _, u := range all {
		if c, ok := t.queue.claims.get(tokenKey(u.Request)); ok && c.Session == session {
			r, _ := t.queue.requests.get(tokenKey(u.Request))
			t.queue.noteHook(r, u.Hook)
		}
	}
}

// skew is how far a peer's wall clock is ahead of the leader's. The command's
// way to the leader makes it look a little slow.
func (t *txn) skew(wall int64) int64 {
	if wall == 0 || t.header.WallMillis == 0 {
		return 0
	}
	return wall - t.header.WallMillis
}

// extend stores a session with a full ttl from now.
func (t *txn) extend(s Session) {
	t.disarm(s.Expires, dueSession, tokenKey(s.ID))
	s.Expires = t.now().Add(SessionTTL)
	t.arm(s.Expires, dueSession, tokenKey(s.ID))
	t.peers.sessions.put(tokenKey(s.ID), s)
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
		return invalid("no session")
	}
	return within("refusal to lead", c.Refuses, 0, maxRefusal)
}

func applyRenewSession(t *txn, c RenewSession) Result {
	s, ok := t.peers.memberSession(c.Session)
	if !ok {
		return refuse(SessionEnded, "session %v has ended", c.Session)
	}
	s.Applied, s.WallMillis, s.SkewMillis, s.Refuses = c.Applied, c.WallMillis, t.skew(c.WallMillis), c.Refuses
	s.NoIronic = c.NoIronic
	s.Behind = t.position.Index - min(c.Applied, t.position.Index)
	t.extend(s)
	t.advance(s.Peer, c.Applied)
	return done()
}

// EndSession ends a session before its ttl: its peer stops. Ending one that is
// over is a success.
type EndSession struct {
	Session fencing.Token `cbor:"1,keyasint"`
}

// Validate implements Command.
func (c EndSession) Validate() error {
	if c.Session.IsZero() {
		return invalid("no session")
	}
	return nil
}

func applyEndSession(t *txn, c EndSession) Result {
	if s, ok := t.peers.sessions.get(tokenKey(c.Session)); ok {
		t.recordMember(ActionStopped, s.Peer)
	}
	t.endSession(c.Session)
	return done()
}

// endSession takes away all that lives in a session: claims, results, votes.
func (t *txn) endSession(id fencing.Token) {
	s, ok := t.peers.sessions.get(tokenKey(id))
	if !ok {
		return
	}
	t.disarm(s.Expires, dueSession, tokenKey(id))
	t.peers.sessions.drop(tokenKey(id))
	t.peers.sessionOf.drop([]byte(s.Peer))
	t.requests.dropSession(id)
	t.loseAll(id)
	t.dropVotesOf(id)
}

// loadSession restores one session from a snapshot.
func loadSession(d *data, s Session) {
	d.peers.sessions.put(tokenKey(s.ID), s)
	d.peers.sessionOf.put([]byte(s.Peer), s.ID)
	d.arm(s.Expires, dueSession, tokenKey(s.ID))
}

// sessionEnds ends the session of a peer that was not heard for its whole time.
func (t *txn) sessionEnds(id []byte) {
	if s, ok := t.peers.sessions.get(id); ok && t.peers.members.has([]byte(s.Peer)) {
		t.recordMember(ActionLost, s.Peer)
	}
	t.endSession(tailToken(id))
}

func checkSessions(d *data, p *problems) {
	p.want(d.peers.sessionOf.size() == d.peers.sessions.size(), "%d sessions belong to %d peers", d.peers.sessions.size(), d.peers.sessionOf.size())
	for key, s := range d.peers.sessions.all() {
		checkSession(d, p, key, s)
	}
}
