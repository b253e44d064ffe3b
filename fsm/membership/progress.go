package membership

import (
	"github.com/trivet-ha/trivet/fsm/fencing"
)

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
	// Session is the one that the peer has, where another was to be replaced; zero: none.
	Session fencing.Token `cbor:"2,keyasint,omitempty"`
}

// advance records the index that a member reports.
func (t Txn) advance(peer string, applied uint64) {
	token := fencing.At(t.Cluster.Base, min(applied, t.Position.Index))
	if old, _ := t.progress.Get([]byte(peer)); !t.Version2() || applied == 0 || token <= old.Token {
		return
	}
	t.progress.Put([]byte(peer), Progress{Peer: peer, Token: token})
}

// Progress returns up to where a member has ever said that it had applied the
// log; zero: it has said nothing.
func (s *Tables) Progress(peer string) fencing.Token {
	p, _ := s.progress.Get([]byte(peer))
	return p.Token
}
