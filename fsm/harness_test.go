package fsm

import (
	"bytes"
	"cmp"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/trivet-ha/trivet/fsm/codec"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// rig is a state with its log, spoken to in verbs. After every entry the
// invariants are checked.
type rig struct {
	t     testing.TB
	state *State
	index uint64
	term  uint64
	now   Time
	wall  int64
	seq   uint16
	log   []Entry
	// version is the log version that peers announce; 0: Version.
	version int
}

func newRig(t testing.TB) *rig {
	t.Helper()
	return newRigAt(t, Version)
}

// newRigAt is newRig of a log version.
func newRigAt(t testing.TB, version int) *rig {
	t.Helper()
	found := founding()
	found.Member.Version = version
	state, err := Founded(found, time.UnixMilli(1_700_000_000_000))
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, state: state, index: 1, term: 2, wall: 1_700_000_000_000, version: version}
}

func founding() Found {
	return Found{
		ClusterID: "6f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a10",
		CACert:    []byte("-----BEGIN CERTIFICATE-----\ncert\n"),
		CAKey:     []byte("-----BEGIN PRIVATE KEY-----\ntopsecret\n"),
		GossipKey: bytes.Repeat([]byte{0xA5}, 32),
		Member:    member("a"),
		Join:      membership.AddJoinToken{ID: "first", Hash: [32]byte{1}, TTL: time.Hour},
	}
}

func member(id string) membership.Member {
	return membership.Member{ID: id, Name: "host-" + id, Address: id + ".example:7350", Gossip: id + ".example:7351",
		Version: Version, Binary: "v0"}
}

// member is a member that announces the rig's log version.
func (r *rig) member(id string) membership.Member {
	m := member(id)
	m.Version = cmp.Or(r.version, Version)
	return m
}

// do commits a command under a header and returns its result.
func (r *rig) do(h Header, c Command) Result {
	r.t.Helper()
	if h.Time == 0 {
		h.Time = r.now
	}
	if h.WallMillis == 0 {
		h.WallMillis = r.wall
	}
	data, err := Encode(h, c)
	if err != nil {
		r.t.Fatalf("encode %v: %v", KindOf(c), err)
	}
	return r.raw(data)
}

// raw commits an entry as it is.
func (r *rig) raw(data []byte) Result {
	r.t.Helper()
	r.index++
	e := Entry{Index: r.index, Term: r.term, Data: data}
	r.log = append(r.log, e)
	res := r.state.Apply(e)
	if err := r.state.View().Check(); err != nil {
		r.t.Fatalf("after entry %d: %v", r.index, err)
	}
	return res
}

// must commits a command that has to succeed.
func (r *rig) must(c Command) Result {
	r.t.Helper()
	return r.mustAs(Header{}, c)
}

func (r *rig) mustAs(h Header, c Command) Result {
	r.t.Helper()
	res := r.do(h, c)
	if res.Code != OK {
		r.t.Fatalf("%v: %v: %s", KindOf(c), res.Code, res.Message)
	}
	return res
}

// asLeader commits a duty's command that has to succeed.
func (r *rig) asLeader(c Command) Result {
	r.t.Helper()
	return r.mustAs(Header{Token: r.view().Leadership().Token}, c)
}

// refused commits a command that has to end with a code and to change nothing
// but the position.
func (r *rig) refused(want Code, h Header, c Command) Result {
	r.t.Helper()
	r.must(Probe{}) // what ends by itself ends here
	before := *r.state.now
	res := r.do(h, c)
	if res.Code != want {
		r.t.Fatalf("%v: %v (%s), want %v", KindOf(c), res.Code, res.Message, want)
	}
	before.shared.Position = r.state.now.shared.Position
	if h.Request.IsZero() && (View{&before}).Hash() != r.view().Hash() {
		r.t.Errorf("%v was refused and changed the state", KindOf(c))
	}
	return res
}

func (r *rig) view() View { return r.state.View() }

// pass lets cluster time and the leader's wall clock go on.
func (r *rig) pass(d time.Duration) {
	r.now = r.now.Add(d)
	r.wall += d.Milliseconds()
}

// session opens a session of a peer, which becomes a member if it is none.
func (r *rig) session(peer string) fencing.Token {
	r.t.Helper()
	if _, ok := r.view().Member(peer); !ok {
		r.must(membership.PutMember{Member: r.member(peer)})
	}
	return r.must(membership.OpenSession{Peer: peer, Boot: fmt.Sprintf("boot-%d", r.index),
		Version: cmp.Or(r.version, Version), WallMillis: r.wall}).Token
}

// request mints the next request ID at the present cluster time.
func (r *rig) request() RequestID {
	r.seq++
	return entry.MintRequestID(r.now, r.seq, [8]byte{7})
}

// entry encodes a command without a header of its own.
func encoded(t testing.TB, h Header, c Command) []byte {
	t.Helper()
	data, err := Encode(h, c)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// older makes a member one whose binary knows no more than a log version.
func (r *rig) older(id string, version int) {
	r.t.Helper()
	m, ok := r.view().Member(id)
	if !ok {
		r.t.Fatalf("%s is no member", id)
	}
	m.Version = version
	r.must(membership.PutMember{Member: m})
}

// load puts a record into the table of a tag, as a snapshot does.
func load(t rapid.TB, d *data, tag byte, record any) {
	t.Helper()
	section, _ := sectionOf(tag)
	if err := section.Load(d.txn(), codec.Marshal(record)); err != nil {
		t.Fatal(err)
	}
}

// nextTurn returns what Dump shows of the throttle.
func nextTurn(v View) string {
	section, _ := sectionOf('T')
	shown, _ := section.Show(v.data.txn()).(map[string]string)
	return shown["next_turn"]
}
