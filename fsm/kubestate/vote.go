package kubestate

import (
	"cmp"
	"errors"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// MaxVotes is the most that one VoteNodes casts and withdraws.
const MaxVotes = 500

// Vote is what a peer's probes say of one kube node.
type Vote struct {
	UID    string `cbor:"1,keyasint"`
	Silent bool   `cbor:"2,keyasint,omitempty"` // false: it answers
}

// Ballot is a vote as it stands. It ends with its session and with its kube
// node.
type Ballot struct {
	Cluster string        `cbor:"1,keyasint"`
	UID     string        `cbor:"2,keyasint"`
	Session fencing.Token `cbor:"3,keyasint"` // of the peer that votes
	Silent  bool          `cbor:"4,keyasint,omitempty"`
	Since   entry.Time    `cbor:"5,keyasint,omitempty"` // cluster time from which on the peer is of this opinion
	Millis  int64         `cbor:"6,keyasint,omitempty"` // wall clock then, Unix ms, for display
}

// VoteNodes tells the log what a peer thinks now, where that has changed. A
// kube node that the log does not know is passed over: it may be gone since.
type VoteNodes struct {
	Session  fencing.Token `cbor:"1,keyasint"` // of the peer; must live
	Cluster  string        `cbor:"2,keyasint"`
	Votes    []Vote        `cbor:"3,keyasint,omitempty"`
	Withdraw []string      `cbor:"4,keyasint,omitempty"` // UIDs of which it has no opinion any more
	Millis   int64         `cbor:"5,keyasint,omitempty"` // wall clock, Unix ms
}

// Validate implements Command.
func (c VoteNodes) Validate() error {
	if err := valid.Count(len(c.Votes)+len(c.Withdraw), MaxVotes, "votes are cast and withdrawn"); err != nil {
		return err
	}
	if c.Session.IsZero() {
		return errors.New("no session")
	}
	var uids []string
	for _, v := range c.Votes {
		uids = append(uids, v.UID)
	}
	uids = append(uids, c.Withdraw...)
	return cmp.Or(errors.Join(validKubeCluster(c.Cluster), valid.Millis(c.Millis)), valid.Each(uids, validUID),
		valid.Once("a kube node", uids))
}

// Apply implements entry.Change.
func (c VoteNodes) Apply(t Txn) entry.Result {
	live := t.MemberSession(c.Session)
	switch {
	case !live:
		return entry.Refuse(entry.SessionEnded, "session %v has ended, and its votes with it", c.Session)
	case !t.Header.Session.IsZero() && t.Header.Session != c.Session:
		return entry.Refuse(entry.Refused, "session %v does not vote for session %v", t.Header.Session, c.Session)
	}
	for _, uid := range c.Withdraw {
		if b, ok := t.votes.Get(ballotKey(c.Cluster, uid, c.Session)); ok {
			t.dropBallot(b)
		}
	}
	for _, v := range c.Votes {
		t.vote(c, v)
	}
	return entry.Done()
}

// vote stores one vote. An opinion that is told again is as old as it was.
func (t Txn) vote(c VoteNodes, v Vote) {
	if !t.nodes.Has(kubeKey(c.Cluster, v.UID)) {
		return
	}
	b := Ballot{Cluster: c.Cluster, UID: v.UID, Session: c.Session, Silent: v.Silent, Since: t.Now(), Millis: c.Millis}
	if old, ok := t.votes.Get(b.key()); !ok || old.Silent != b.Silent {
		t.putBallot(b)
	}
}

// DropVotesOf ends the votes of a session.
func (t Txn) DropVotesOf(session fencing.Token) {
	for key := range t.votesOf.Under(table.TokenKey(session)) {
		b, _ := t.votes.Get(t.ballotAt(key))
		t.dropBallot(b)
	}
}

func (s *Tables) putBallot(b Ballot) {
	s.votes.Put(b.key(), b)
	s.votesOf.Put(b.sessionKey(), table.None{})
}

func (s *Tables) dropBallot(b Ballot) {
	s.votes.Drop(b.key())
	s.votesOf.Drop(b.sessionKey())
}

// ballotAt turns a key of votesOf into one of votes.
func (Tables) ballotAt(key []byte) []byte {
	session, node := key[:8], key[8:]
	return append(append(append(make([]byte, 0, len(key)+1), node...), 0), session...)
}

func (b Ballot) key() []byte { return ballotKey(b.Cluster, b.UID, b.Session) }

func (b Ballot) sessionKey() []byte {
	return table.LongKey(uint64(b.Session), kubeKey(b.Cluster, b.UID))
}

// kubeKey orders by a cluster, then by a UID or a name. Neither has a NUL.
func kubeKey(cluster, id string) []byte {
	return append(append(append(make([]byte, 0, len(cluster)+len(id)+1), cluster...), 0), id...)
}

func ballotPrefix(cluster, uid string) []byte { return append(kubeKey(cluster, uid), 0) }

func ballotKey(cluster, uid string, session fencing.Token) []byte {
	return append(ballotPrefix(cluster, uid), table.TokenKey(session)...)
}
