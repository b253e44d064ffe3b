package powercut

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/host"
)

// Stores are the ways in which a log is opened, by raft.log_store.
var Stores = []string{"bolt", "wal"}

// Log is what a peer has of the log.
type Log struct {
	*host.History
	Term, Vote uint64 // Vote is the term of the newest
}

// OpenLog opens the log of a stopped peer as a start does, reads it, and closes it.
func OpenLog(dir, store string) (l Log, err error) {
	var st raftstore.Storage
	if store == "wal" {
		st, err = host.OpenWAL(dir, rand.Reader)
	} else {
		st, err = host.Open(dir)
	}
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if l.History, err = host.Replay(st); err != nil {
		return l, err
	}
	for key, to := range map[string]*uint64{"CurrentTerm": &l.Term, "LastVoteTerm": &l.Vote} { // order-free: two keys
		if *to, err = st.Stable.GetUint64([]byte(key)); err != nil && err.Error() != "not found" {
			return l, err
		}
	}
	return l, nil
}

// Peer is what a data directory holds; nil: no peer.
type Peer struct {
	datadir.Identity
	Log
	NotAfter uint64 // of its certificate, in seconds since 1970
	departed bool   // there is a record that it is no member
}

// OpenPeer opens a data directory as a start does, reads it, and closes it.
func OpenPeer(root, store string) (p *Peer, err error) {
	dir, err := datadir.Open(root)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	id, secrets, err := dir.Load()
	if errors.Is(err, datadir.ErrNoPeer) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p = &Peer{Identity: id, NotAfter: uint64(secrets.Credentials.Leaf.NotAfter.Unix())}
	if _, p.departed, err = datadir.Departed(root); err != nil {
		return nil, err
	}
	is := secrets.Credentials.Identity
	if is.Peer != id.ID || is.Cluster != id.Cluster || is.Incarnation != id.Incarnation {
		return nil, fmt.Errorf("the identity is %v, and the certificate that of %v", id, is)
	}
	if p.Log, err = OpenLog(dir.RaftDir(), store); err != nil {
		return nil, err
	}
	if v := p.State.View(); p.Last > 0 && v.Index() > 0 && v.Incarnation() != id.Incarnation {
		return nil, fmt.Errorf("the identity is of incarnation %d, and the log of %d", id.Incarnation, v.Incarnation())
	}
	return p, nil
}

// value returns a number that a client wrote; 0 before it did.
func value(v fsm.View, key string) (uint64, error) {
	s, ok := v.Setting(key)
	if !ok {
		return 0, nil
	}
	return strconv.ParseUint(strings.SplitN(s.Value, " ", 2)[0], 10, 64)
}

// Lost says what was acknowledged and is not there.
type Lost struct{ What string }

// Error implements error.
func (e *Lost) Error() string { return "acknowledged, and lost in the power cut: " + e.What }

// Refused says that a peer does not start, and why.
type Refused struct {
	Peer string
	Err  error
}

// Error implements error.
func (e *Refused) Error() string { return fmt.Sprintf("peer %s does not start: %v", e.Peer, e.Err) }

// Unwrap gives the cause to errors.Is and errors.As.
func (e *Refused) Unwrap() error { return e.Err }

// JudgeLog compares a log with claims: value/KEY of each writer, and term.
func JudgeLog(dir, store string, c Claims) error {
	l, err := OpenLog(dir, store)
	if err != nil {
		return &Refused{Peer: dir, Err: err}
	}
	for key, least := range c.below("value") { // order-free: any loss will do
		if is, err := value(l.State.View(), key); is < least || err != nil {
			return &Lost{fmt.Sprintf("%s is %d of %d (%v)", key, is, least, err)}
		}
	}
	if least := c["term"]; l.Term < least || l.Vote < least {
		return &Lost{fmt.Sprintf("the term is %d, of the vote %d, and was %d", l.Term, l.Vote, least)}
	}
	return nil
}

// key is the setting that the workload of peers writes, a number that rises.
const key = "user.seq"

// JudgePeers compares the data directories of all peers, at a power cut of all, with the claims
//
//	founded/PEER    the incarnation that init, join or a founding has given it
//	left/PEER       1: it was told to leave; 2: and joined again
//	expires/PEER    the end of its certificate
//	term/PEER/INC   the term that it told of, in an incarnation
//	vote/PEER/INC   the term in which it led, and so had voted for itself
//	value/INC/NEED  what was written in an incarnation, which NEED peers have
//	base/INC        what an incarnation begins with
//	file/NAME       what the snapshot in a file holds
func JudgePeers(dir string, names []string, store string, c Claims) error {
	peers := make(map[string]*Peer)
	var refused, lost error
	for _, name := range names {
		p, err := OpenPeer(filepath.Join(dir, name), store)
		if err != nil {
			refused = errors.Join(refused, &Refused{Peer: name, Err: err})
			continue
		}
		if p != nil {
			peers[name] = p
		}
		lost = errors.Join(lost, c.lostOf(name, p))
	}
	if refused != nil {
		return errors.Join(lost, refused)
	}
	for of, least := range c.below("value") { // order-free: each is judged by itself
		var incarnation uint64
		var need int
		if _, err := fmt.Sscanf(of, "%d/%d", &incarnation, &need); err != nil {
			return err
		}
		have := 0
		for _, p := range peers { // order-free: a sum
			is, err := value(p.State.View(), key)
			if err != nil {
				return err
			}
			if p.Incarnation > incarnation || p.Incarnation == incarnation && is >= least {
				have++
			}
		}
		if have < need {
			lost = errors.Join(lost,
				&Lost{fmt.Sprintf("%d of incarnation %d is at %d peers of %d", least, incarnation, have, need)})
		}
	}
	return errors.Join(lost, c.lostFiles(dir))
}

// lostOf compares what one peer has with what it said.
func (c Claims) lostOf(name string, p *Peer) error {
	if p == nil {
		if c["founded/"+name] > 0 && c["left/"+name] != 1 {
			return &Lost{"peer " + name}
		}
		return nil
	}
	if p.departed {
		return &Lost{fmt.Sprintf("peer %s has the record that it is no member", name)}
	}
	if c["left/"+name] > 0 {
		return nil // it has another log
	}
	is, err := value(p.State.View(), key)
	if err != nil {
		return err
	}
	for claim, has := range map[string]uint64{ // order-free: each is judged by itself
		"founded/" + name: p.Incarnation, "expires/" + name: p.NotAfter,
		// another incarnation has a log of its own
		fmt.Sprintf("term/%s/%d", name, p.Incarnation): p.Term, fmt.Sprintf("vote/%s/%d", name, p.Incarnation): p.Vote,
	} {
		if least := c[claim]; has < least {
			err = errors.Join(err, &Lost{fmt.Sprintf("%s is %d, and was %d", claim, has, least)})
		}
	}
	if least := c[fmt.Sprintf("base/%d", p.Incarnation)]; name == founder && is < least {
		err = errors.Join(err, &Lost{fmt.Sprintf("incarnation %d begins with %d, not %d", p.Incarnation, is, least)})
	}
	return err
}

// founder is the peer that founds the cluster, and founds it again.
const founder = "a"

// lostFiles reads the snapshots that clients wrote.
func (c Claims) lostFiles(dir string) (err error) {
	for name, least := range c.below("file") { // order-free: each is judged by itself
		is, wrong := snapshotValue(filepath.Join(dir, name))
		if wrong != nil || is < least {
			err = errors.Join(err, &Lost{fmt.Sprintf("%s holds %d of %d (%v)", name, is, least, wrong)})
		}
	}
	return err
}

func snapshotValue(path string) (is uint64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	state, err := fsm.Read(f)
	if err != nil {
		return 0, err
	}
	return value(state.View(), key)
}
