// Package domaintest helps to test one domain of the replicated state without the others.
package domaintest

import (
	"reflect"
	"testing"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Session is the one session that lives: that of Peer.
const (
	Session fencing.Token = 77
	Peer                  = "a"
)

type peers struct{}

func (peers) PeerOf(session fencing.Token) (server string, live bool) {
	return Peer, session == Session
}

func (peers) MemberName(server string) (name string, member bool) {
	return "host-" + server, server == Peer
}

func (peers) AwaitedFormers() string { return "" }

// NewTxn returns an entry at work on a state whose members know all log versions.
func NewTxn() *entry.Txn {
	state := entry.State{}
	state.Version = 2
	state.Position.Index = uint64(Session) + 1
	return &entry.Txn{State: &state, Header: entry.Header{Session: Session, WallMillis: 1}, Peers: peers{}}
}

// Commit applies a command, which has to succeed, as the next entry of base; t is base at
// work on the domain.
func Commit[T any](tb testing.TB, d entry.Domain[T], base *entry.Txn, t T, c entry.Command) fencing.Token {
	tb.Helper()
	base.Position.Index++
	base.Token = base.Granted()
	for _, verb := range d.Verbs {
		if verb.Type == reflect.TypeOf(c) {
			if err := verb.Apply(t, c).Err(); err != nil {
				tb.Fatalf("%s: %v", verb.Name, err)
			}
			return base.Token
		}
	}
	tb.Fatalf("%T is no command of the domain", c)
	return 0
}

// FindContradictions has Check find each contradiction that a fault of a verb could leave in
// tables; at is base at work on a copy of them.
func FindContradictions[S, T any](t *testing.T, d entry.Domain[T], base *entry.Txn, tables S, at func(*entry.Txn, *S) T,
	all map[string]func(T)) {
	t.Helper()
	if err := Check(d, base, at(base, &tables)); err != nil {
		t.Fatal(err)
	}
	for name, corrupt := range all {
		t.Run(name, func(t *testing.T) {
			state, bad := *base.State, tables
			txn := *base
			txn.State = &state
			corrupted := at(&txn, &bad)
			corrupt(corrupted)
			if Check(d, &txn, corrupted) == nil {
				t.Error("not found")
			}
		})
	}
}

// Check returns what the domain's invariants and deadlines say of its tables.
func Check[T any](d entry.Domain[T], base *entry.Txn, t T) error {
	p := &valid.Problems{}
	for _, check := range d.Checks {
		check(t, p)
	}
	for _, e := range d.Ends {
		e.Due(t, func(at entry.Time, id []byte) {
			p.Want(base.Armed(at, e.Class, id), "no deadline %v of class %q for %x", at, e.Class, id)
		})
	}
	return p.Err()
}
