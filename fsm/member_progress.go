package fsm

import (
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

var progressDomain = domain{
	Sections: []entry.Section[*txn]{
		entry.Many('A', "progress", func(d *txn) table.Of[Progress] { return d.peers.progress },
			func(d *txn, p Progress) { d.peers.progress.Put([]byte(p.Peer), p) }),
	},
	Check: func(d *txn, p *valid.Problems) {
		for key, one := range d.peers.progress.All() {
			p.Want(string(key) == one.Peer, "the progress of %s is filed under %q", one.Peer, key)
			p.Want(!one.Token.IsZero() && one.Token <= d.shared.Granted(), "peer %s has applied token %v, which is to come", one.Peer, one.Token)
		}
	},
}

// Progress is up to where a member has ever said that it had applied the log. The
// entries up to there were on its disk, and it had acknowledged them. It outlives
// the member's sessions: a member whose disk holds less was rolled back.
type Progress struct {
	Peer  string        `cbor:"1,keyasint"` // server ID
	Token fencing.Token `cbor:"2,keyasint"` // of the newest entry
}

// Opened is the Value of the result of OpenSession, from log version 2 on.
type Opened struct {
	// Applied is the peer's Progress: what its earlier processes have reported.
	Applied fencing.Token `cbor:"1,keyasint,omitempty"`
}

// advance records the index that a member reports.
func (t *txn) advance(peer string, applied uint64) {
	token := fencing.At(t.Cluster.Base, min(applied, t.Position.Index))
	if old, _ := t.peers.progress.Get([]byte(peer)); !t.Version2() || applied == 0 || token <= old.Token {
		return
	}
	t.peers.progress.Put([]byte(peer), Progress{Peer: peer, Token: token})
}

// Progress returns up to where a member has ever said that it had applied the
// log; zero: it has said nothing.
func (v View) Progress(peer string) fencing.Token {
	p, _ := v.data.peers.progress.Get([]byte(peer))
	return p.Token
}
