package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// seen is a state that a leader confirms or not.
type seen struct {
	view   fsm.View
	behind bool   // a leader is heard, or not, and the state has not arrived
	named  string // server ID that raft's configuration names
}

func (s seen) Changed() (fsm.View, <-chan struct{}) { return s.view, make(chan struct{}) }

func (s seen) Servers() []raftstore.Server {
	if s.named == "" {
		return nil
	}
	return []raftstore.Server{{ID: s.named, Voter: true}}
}

func (s seen) Read(ctx context.Context) (fsm.View, error) {
	if s.behind {
		<-ctx.Done()
		return fsm.View{}, ctx.Err()
	}
	return s.view, nil
}

// answering returns an asker whose members say what stands in a table, and
// counts the questions about other peers than h1; one that is not in it does not answer.
func answering(answers map[string]Rights, asked *int) Asker {
	var mu sync.Mutex
	return func(_ context.Context, m membership.Member, path string) ([]byte, error) {
		mu.Lock()
		if path != PathRights+"h1" {
			*asked++
		}
		mu.Unlock()
		r, ok := answers[m.ID]
		if !ok || !strings.HasPrefix(path, PathRights) {
			return nil, errors.New("no answer")
		}
		return json.Marshal(r)
	}
}

// A peer whose state is current believes it; one whose state may be old asks the
// others, whose silence is no objection.
func TestWhoMaySpeakRaft(t *testing.T) {
	f := newFixture(t)
	do := &doer{f: f}
	for _, c := range []fsm.Command{
		membership.PutMember{Member: membership.Member{ID: "h2", Name: "h2", Address: "h2:1", Version: fsm.Version}},
		membership.PutMember{Member: membership.Member{ID: "h3", Name: "h3", Address: "h3:1", Version: fsm.Version}},
		membership.PutMember{Member: membership.Member{ID: "gone", Name: "gone", Address: "gone:1", Version: fsm.Version}},
		membership.RemoveMember{ID: "gone", Force: true},
	} {
		if res, err := do.Do(t.Context(), "", c); err != nil || res.Err() != nil {
			t.Fatal(err, res.Err())
		}
	}
	const confirmed, behind = false, true
	member, removed, unknown := Rights{Member: true, Current: true}, Rights{Removed: true}, Rights{Current: true}
	for name, c := range map[string]struct {
		peer    string
		behind  bool
		answers map[string]Rights
		refused bool
		asks    bool
	}{
		"a member":                                  {"h2", confirmed, nil, false, false},
		"removed-speaks-no-raft":                    {"gone", confirmed, nil, true, false},
		"removed, and the state is old":             {"gone", behind, nil, true, false},
		"a member of an old state":                  {"h2", behind, map[string]Rights{"h3": member}, false, true},
		"a member of an old state, and no answer":   {"h2", behind, nil, false, true},
		"missed-removal":                            {"h2", behind, map[string]Rights{"h3": removed}, true, true},
		"missed-removal before removals were noted": {"h2", behind, map[string]Rights{"h3": unknown}, true, true},
		"a joiner's first leader":                   {"h2", behind, nil, false, true},
		"joined while this peer was away": {"h9", confirmed, map[string]Rights{"h2": member, "h3": unknown}, false,
			true},
		"unknown to the others, too":           {"h9", confirmed, map[string]Rights{"h2": unknown}, true, true},
		"unknown to others that are away, too": {"h9", confirmed, map[string]Rights{"h2": {}}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := f.access(t, pki.PeerIdentity(clusterID, "h1", 1))
			asked := 0
			state := seen{view: f.View(), behind: c.behind}
			a.Follow(state, answering(c.answers, &asked), Own{})
			ctx, cancel := context.WithCancel(t.Context())
			if c.behind {
				cancel() // else the read ends with its own limit
			}
			a.current.confirm(ctx, state)
			cancel()
			err := a.Authorize(c.peer)
			if (err != nil) != c.refused {
				t.Errorf("%s: %v", name, err)
			}
			if (asked > 0) != c.asks {
				t.Errorf("the others were asked %d times", asked)
			}
			before := asked
			if again := a.Authorize(c.peer); (again != nil) != c.refused || asked != before {
				t.Errorf("at once again: %v, asked %d times more", again, asked-before)
			}
		})
	}
}

// A removed peer that raft's configuration still names is spoken with by raft until the
// configuration has followed. Its calls are refused at once, and only then in words that have
// it end: its vote may be needed.
func TestRemovedPeerThatRaftCounts(t *testing.T) {
	f := newFixture(t)
	removeGone(t, f)
	for named, refused := range map[string]bool{"gone": false, "h2": true} {
		a := f.access(t, pki.PeerIdentity(clusterID, "h1", 1))
		a.Follow(seen{view: f.View(), named: named}, nil, Own{})
		if err := a.Authorize("gone"); (err != nil) != refused {
			t.Errorf("removed-counts-in-raft: raft names %s, and a removed peer's request: %v", named, err)
		}
		if err := a.refuses(pki.PeerIdentity(clusterID, "gone", 1), time.Now()); !errors.Is(err, ErrRemovedPeer) {
			t.Errorf("a removed peer's call: %v", err)
		}
		r := httptest.NewRequest(http.MethodGet, pathReadIndex, http.NoBody)
		gone := f.end(t, pki.PeerIdentity(clusterID, "gone", 1)).Credentials().Leaf
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{gone}}
		w, want := httptest.NewRecorder(), map[bool]int{true: http.StatusForbidden, false: statusBusy}[refused]
		a.Handler(http.NotFoundHandler()).ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("removed-counts-in-raft: raft names %s, and a call is answered %d, want %d", named, w.Code, want)
		}
	}
}

// removeGone has a member "gone" admitted and removed.
func removeGone(t *testing.T, f *fixture) {
	t.Helper()
	do := &doer{f: f}
	for _, c := range []fsm.Command{
		membership.PutMember{Member: membership.Member{ID: "gone", Name: "gone", Address: "gone:1", Version: fsm.Version}},
		membership.RemoveMember{ID: "gone", Force: true},
	} {
		if res, err := do.Do(t.Context(), "", c); err != nil || res.Err() != nil {
			t.Fatal(err, res.Err())
		}
	}
}

// Of a removal that is applied while a call is judged the next call tells: this one knows nothing
// of raft's configuration.
func TestRemovalWhileACallIsJudged(t *testing.T) {
	f := newFixture(t)
	removeGone(t, f)
	addr := f.serve(t, NewRoutes(&served{view: f.View(), leads: true}, admission.NewController()))
	forward := NewForwarder(f.access(t, pki.PeerIdentity(clusterID, "gone", 1)))
	defer forward.Close()
	leader := raftstore.Server{ID: "h1", Address: ServerAddress("h1", addr)}
	_, err := forward.Propose(t.Context(), leader, nil)
	if !errors.Is(err, logerr.ErrBusy) || errors.Is(err, ErrNotMember) {
		t.Errorf("removed-counts-in-raft: a call that met the removal was answered %v, want ErrBusy", err)
	}
}

// A joiner, whose state is empty, goes by what the join told it.
func TestJoinerKnowsWhoWasRemoved(t *testing.T) {
	f := newFixture(t)
	asked := 0
	a := NewAccess(f.end(t, pki.PeerIdentity(clusterID, "h1", 1)),
		Known{Members: []string{"h2@h2:1", "h3@h3:1"}, Removed: []string{"gone"}}, slog.New(slog.DiscardHandler))
	a.Follow(seen{view: fsm.New().View(), behind: true}, answering(map[string]Rights{"h3": {Removed: true}}, &asked),
		Own{})
	if err := a.Authorize("gone"); !errors.Is(err, ErrRemovedPeer) || asked != 0 {
		t.Errorf("a peer that was removed before the join: %v, asked %d times", err, asked)
	}
	if err := a.Authorize("h2"); !errors.Is(err, ErrRemovedPeer) || asked != 1 {
		t.Errorf("a peer that was removed after the join: %v, asked %d times", err, asked)
	}
	if err := a.Authorize("h3"); err != nil {
		t.Errorf("a member: %v", err)
	}
}

// A member's host has the members' room at the port before it has a connection: by its address in
// the state, and before that has come by the one that the join named.
func TestMemberAt(t *testing.T) {
	f := newFixture(t)
	member := membership.Member{ID: "h2", Name: "h2", Address: "192.0.2.2:7350", Version: fsm.Version}
	res, err := (&doer{f: f}).Do(t.Context(), "", membership.PutMember{Member: member})
	if err != nil || res.Err() != nil {
		t.Fatal(err, res.Err())
	}
	joiner := NewAccess(f.end(t, pki.PeerIdentity(clusterID, "h1", 1)), Known{Members: []string{"h2@192.0.2.2:7350"}},
		slog.New(slog.DiscardHandler))
	peer := f.access(t, pki.PeerIdentity(clusterID, "h1", 1))
	asked := 0
	peer.Follow(seen{view: f.View()}, answering(nil, &asked), Own{})
	for name, a := range map[string]*Access{"by the state": peer, "by the join": joiner} {
		for at, want := range map[string]bool{"192.0.2.2": true, "192.0.2.3": false} {
			if got := a.MemberAt(netip.MustParseAddr(at)); got != want {
				t.Errorf("%s: %s is a member's: %v", name, at, got)
			}
		}
	}
}

// Connections of one peer beyond the bound close its oldest.
func TestConnectionsOfOnePeerAreBounded(t *testing.T) {
	f := newFixture(t)
	access := f.access(t, pki.PeerIdentity(clusterID, "h1", 1))
	port, err := NewPort(t.Context(), "127.0.0.1:0", access)
	if err != nil {
		t.Fatal(err)
	}
	if err := port.Serve(NewRoutes(&served{view: f.View(), leads: true}, admission.NewController()),
		admission.NewController(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	other := f.access(t, pki.PeerIdentity(clusterID, "h2", 1))
	for range 2 * connsPerIdentity {
		conn, err := other.dial(t.Context(), "h1", port.Addr().String(), protocolRaft)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, _, err := port.AcceptPeer(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(access.connections()); n > connsPerIdentity {
		t.Errorf("%d connections of one peer are open, at most %d", n, connsPerIdentity)
	}
}

// A certificate that ends, or whose incarnation is over, ends the connections
// that were made with it.
func TestCertificatesAreJudgedAgain(t *testing.T) {
	f := newFixture(t)
	now := time.Now()
	cred := f.end(t, pki.PeerIdentity(clusterID, "h1", 1)).Credentials()
	access := NewAccess(pki.Endpoint{Credentials: func() *pki.Credentials { return cred },
		Now: func() time.Time { return now }}, Known{}, slog.New(slog.DiscardHandler))
	port, err := NewPort(t.Context(), "127.0.0.1:0", access)
	if err != nil {
		t.Fatal(err)
	}
	if err := port.Serve(NewRoutes(&served{view: f.View(), leads: true}, admission.NewController()),
		admission.NewController(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	conn, err := f.access(t, pki.PeerIdentity(clusterID, "h2", 1)).dial(t.Context(), "h1", port.Addr().String(),
		protocolRaft)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, _, err := port.AcceptPeer(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		at   time.Time
		open int
	}{{now, 1}, {now.Add(-48 * time.Hour), 1}, {now.Add(pki.PeerTTL + time.Hour), 0}} {
		now = step.at
		for _, o := range access.connections() {
			access.closeIfRefused(o)
		}
		access.judgeCertificates()
		if n := len(access.connections()); n != step.open {
			t.Errorf("at %v %d connections are open, want %d", step.at, n, step.open)
		}
	}
}
