package fsm

import (
	"errors"
	"fmt"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

var kubeVoteDomain = domain{
	Verbs: []entry.Verb[*txn]{
		entry.NewVerb(101, "vote on kube nodes", applyVoteKubeNodes).From(2),
	},
	Sections: []entry.Section[*txn]{
		entry.Many('v', "votes", func(d *txn) table.Of[KubeBallot] { return d.failover.votes }, func(d *txn, b KubeBallot) { d.failover.putBallot(b) }),
	},
	Check: checkBallots,
}

// MaxKubeVotes is the most that one VoteKubeNodes casts and withdraws.
const MaxKubeVotes = 500

// KubeVote is what a peer's probes say of one kube node.
type KubeVote struct {
	UID    string `cbor:"1,keyasint"`
	Silent bool   `cbor:"2,keyasint,omitempty"` // false: it answers
}

// KubeBallot is a vote as it stands. It ends with its session and with its kube
// node.
type KubeBallot struct {
	Cluster string        `cbor:"1,keyasint"`
	UID     string        `cbor:"2,keyasint"`
	Session fencing.Token `cbor:"3,keyasint"` // of the peer that votes
	Silent  bool          `cbor:"4,keyasint,omitempty"`
	Since   Time          `cbor:"5,keyasint,omitempty"` // cluster time from which on the peer is of this opinion
	Millis  int64         `cbor:"6,keyasint,omitempty"` // wall clock then, Unix ms, for display
}

// VoteKubeNodes tells the log what a peer thinks now, where that has changed. A
// kube node that the log does not know is passed over: it may be gone since.
type VoteKubeNodes struct {
	Session  fencing.Token `cbor:"1,keyasint"` // of the peer; must live
	Cluster  string        `cbor:"2,keyasint"`
	Votes    []KubeVote    `cbor:"3,keyasint,omitempty"`
	Withdraw []string      `cbor:"4,keyasint,omitempty"` // UIDs of which it has no opinion any more
	Millis   int64         `cbor:"5,keyasint,omitempty"` // wall clock, Unix ms
}

// Validate implements Command.
func (c VoteKubeNodes) Validate() error {
	n := len(c.Votes) + len(c.Withdraw)
	if n == 0 || n > MaxKubeVotes {
		return fmt.Errorf("%d votes are cast and withdrawn, allowed are 1 to %d", n, MaxKubeVotes)
	}
	if c.Session.IsZero() {
		return errors.New("no session")
	}
	if err := errors.Join(validKubeCluster(c.Cluster), valid.Millis(c.Millis)); err != nil {
		return err
	}
	seen := make(map[string]bool, n)
	for _, v := range c.Votes {
		if err := validUID(v.UID); err != nil {
			return err
		}
		seen[v.UID] = true
	}
	for _, uid := range c.Withdraw {
		if err := validUID(uid); err != nil {
			return err
		}
		seen[uid] = true
	}
	if len(seen) < n {
		return errors.New("a kube node is named twice")
	}
	return nil
}

func applyVoteKubeNodes(t *txn, c VoteKubeNodes) Result {
	_, live := t.peers.memberSession(c.Session)
	switch {
	case !live:
		return entry.Refuse(SessionEnded, "session %v has ended, and its votes with it", c.Session)
	case !t.Header.Session.IsZero() && t.Header.Session != c.Session:
		return entry.Refuse(Refused, "session %v does not vote for session %v", t.Header.Session, c.Session)
	}
	for _, uid := range c.Withdraw {
		if b, ok := t.failover.votes.Get(ballotKey(c.Cluster, uid, c.Session)); ok {
			t.failover.dropBallot(b)
		}
	}
	for _, v := range c.Votes {
		t.vote(c, v)
	}
	return entry.Done()
}

// vote stores one vote. An opinion that is told again is as old as it was.
func (t *txn) vote(c VoteKubeNodes, v KubeVote) {
	if !t.failover.nodes.Has(kubeKey(c.Cluster, v.UID)) {
		return
	}
	b := KubeBallot{Cluster: c.Cluster, UID: v.UID, Session: c.Session, Silent: v.Silent, Since: t.Now(), Millis: c.Millis}
	if old, ok := t.failover.votes.Get(b.key()); !ok || old.Silent != b.Silent {
		t.failover.putBallot(b)
	}
}

// dropVotesOf ends the votes of a session.
func (t *txn) dropVotesOf(session fencing.Token) {
	for key := range t.failover.votesOf.Under(table.TokenKey(session)) {
		b, _ := t.failover.votes.Get(t.failover.ballotAt(key))
		t.failover.dropBallot(b)
	}
}

func (f *failover) putBallot(b KubeBallot) {
	f.votes.Put(b.key(), b)
	f.votesOf.Put(b.sessionKey(), table.None{})
}

func (f *failover) dropBallot(b KubeBallot) {
	f.votes.Drop(b.key())
	f.votesOf.Drop(b.sessionKey())
}

// ballotAt turns a key of votesOf into one of votes.
func (failover) ballotAt(key []byte) []byte {
	session, node := key[:8], key[8:]
	return append(append(append(make([]byte, 0, len(key)+1), node...), 0), session...)
}

func (b KubeBallot) key() []byte { return ballotKey(b.Cluster, b.UID, b.Session) }

func (b KubeBallot) sessionKey() []byte {
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
