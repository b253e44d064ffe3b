package fsm

import "github.com/trivet-ha/trivet/fsm/fencing"

var progressDomain = domain{
	sections: []section{
		many('A', "progress", func(d *data) table[Progress] { return d.peers.progress },
			func(d *data, p Progress) { d.peers.progress.put([]byte(p.Peer), p) }),
	},
	check: checkProgress,
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
	token := fencing.At(t.cluster.Base, min(applied, t.position.Index))
	if old, _ := t.peers.progress.get([]byte(peer)); !t.peers.version2() || applied == 0 || token <= old.Token {
		return
	}
	t.peers.progress.put([]byte(peer), Progress{Peer: peer, Token: token})
}

// opened is the result of OpenSession.
func (t *txn) opened(peer string) Result {
	if !t.peers.version2() {
		return done()
	}
	return answer(Opened{Applied: View{d: t.data}.Progress(peer)})
}

// Progress returns up to where a member has ever said that it had applied the
// log; zero: it has said nothing.
func (v View) Progress(peer string) fencing.Token {
	p, _ := v.d.peers.progress.get([]byte(peer))
	return p.Token
}

func checkProgress(d *data, p *problems) {
	for key, one := range d.peers.progress.all() {
		p.want(string(key) == one.Peer, "the progress of %s is filed under %q", one.Peer, key)
		p.want(!one.Token.IsZero() && one.Token <= d.granted(), "peer %s has applied token %v, which is to come", one.Peer, one.Token)
	}
}
