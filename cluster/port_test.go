package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
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

const clusterID = "5f0c1f3e-0000-4000-8000-000000000001"

// served is a log that leads or does not.
type served struct {
	view   fsm.View
	leads  bool
	answer []byte
	index  uint64 // that a leader confirms
	// confirming, if set, happens while an index is confirmed.
	confirming func()
}

func (s *served) ServeProposal(context.Context, []byte) ([]byte, error) {
	if !s.leads {
		return nil, logerr.ErrNotLeader
	}
	return s.answer, nil
}

func (s *served) ConfirmedIndex(context.Context) (uint64, error) {
	if !s.leads {
		return 0, logerr.ErrNotLeader
	}
	if s.confirming != nil {
		s.confirming()
	}
	return s.index, nil
}

func (s *served) View() fsm.View { return s.view }

// fixture is a cluster's CA with a state that holds it and one member, h1.
type fixture struct {
	ca    *pki.CA
	state *fsm.State
	token pki.JoinToken

	mu    sync.Mutex // of the state, which is changed by one caller at a time, and of reads
	reads int        // linearizable ones
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	now := time.Now()
	ca, err := pki.NewCA(clusterID, now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ca.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	token, err := pki.NewJoinToken(ca.Hash(), now.Add(time.Hour), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	state, err := fsm.Founded(fsm.Found{
		ClusterID: clusterID, CACert: ca.CertPEM(), CAKey: key, GossipKey: make([]byte, 32),
		Member: membership.Member{ID: "h1", Name: "h1", Address: "127.0.0.1:7350", Gossip: "127.0.0.1:7351",
			Version: fsm.Version},
		Join: membership.AddJoinToken{ID: token.ID, Hash: token.SecretHash(), TTL: time.Hour},
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{ca: ca, state: state, token: token}
}

// end returns an endpoint with a fresh certificate of the fixture's CA.
func (f *fixture) end(t *testing.T, id pki.Identity) pki.Endpoint {
	t.Helper()
	cred, err := Issue(f.ca, id, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return pki.Endpoint{Credentials: func() *pki.Credentials { return cred }, Now: time.Now}
}

// View implements JoinLog.
func (f *fixture) View() fsm.View {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.View()
}

// Read implements JoinLog.
func (f *fixture) Read(context.Context) (fsm.View, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	return f.state.View(), nil
}

// access returns the rules of a peer that follows no log.
func (f *fixture) access(t *testing.T, id pki.Identity) *Access {
	t.Helper()
	return NewAccess(f.end(t, id), Known{}, slog.New(slog.DiscardHandler))
}

// serve opens a port that answers as the peer h1.
func (f *fixture) serve(t *testing.T, h http.Handler) string {
	t.Helper()
	return f.open(t, h).Addr().String()
}

// open is serve, and returns the port itself.
func (f *fixture) open(t *testing.T, h http.Handler) *Port {
	t.Helper()
	port, err := NewPort(t.Context(), "127.0.0.1:0", f.access(t, pki.PeerIdentity(clusterID, "h1", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if err := port.Serve(h, admission.NewController(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := port.Close(); err != nil {
			t.Error(err)
		}
	})
	return port
}

func TestForwardedCommandReachesTheLeader(t *testing.T) {
	f := newFixture(t)
	log := &served{view: f.state.View(), leads: true, answer: []byte("done"), index: 77}
	addr := f.serve(t, NewRoutes(log, admission.NewController()))
	forward := NewForwarder(f.access(t, pki.PeerIdentity(clusterID, "h1", 1)))
	defer forward.Close()
	leader := raftstore.Server{ID: "h1", Address: ServerAddress("h1", addr)}

	if got, err := forward.Propose(t.Context(), leader, []byte("x")); err != nil || string(got) != "done" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := forward.ReadIndex(t.Context(), leader); err != nil || got != 77 {
		t.Errorf("read index is %d, %v", got, err)
	}
	log.leads = false
	if _, err := forward.Propose(t.Context(), leader, []byte("x")); !errors.Is(err, logerr.ErrNotLeader) {
		t.Errorf("a follower answered %v, want ErrNotLeader", err)
	}
}

// A leader that dies over a question leaves a command's outcome unknown; a read
// is asked again.
func TestLeaderDiesOverAQuestion(t *testing.T) {
	f := newFixture(t)
	addr := f.serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	forward := NewForwarder(f.access(t, pki.PeerIdentity(clusterID, "h1", 1)))
	defer forward.Close()
	leader := raftstore.Server{ID: "h1", Address: ServerAddress("h1", addr)}
	if _, err := forward.ReadIndex(t.Context(), leader); !errors.Is(err, logerr.ErrNoLeader) {
		t.Errorf("a read: %v, want ErrNoLeader", err)
	}
	if _, err := forward.Propose(t.Context(), leader, []byte("x")); err == nil || errors.Is(err, logerr.ErrNoLeader) {
		t.Errorf("a command: %v, want nothing that says it was not appended", err)
	}
}

// Another peer at the leader's address must not answer for it.
func TestForwarderDemandsTheLeadersID(t *testing.T) {
	f := newFixture(t)
	addr := f.serve(t, NewRoutes(&served{view: f.state.View(), leads: true}, admission.NewController()))
	forward := NewForwarder(f.access(t, pki.PeerIdentity(clusterID, "h1", 1)))
	defer forward.Close()
	_, err := forward.Propose(t.Context(), raftstore.Server{ID: "h9", Address: ServerAddress("h9", addr)}, []byte("x"))
	var wrong *pki.WrongPeerError
	if !errors.As(err, &wrong) || !errors.Is(err, logerr.ErrNoLeader) {
		t.Errorf("got %v, want a wrong peer, and that nothing was appended", err)
	}
}

// A removed peer's certificate is valid until it ends; only the leader's
// present state may tell it that it is out.
func TestOnlyTheLeaderTellsAPeerThatItIsRemoved(t *testing.T) {
	f := newFixture(t)
	log := &served{view: f.state.View()}
	addr := f.serve(t, NewRoutes(log, admission.NewController()))
	forward := NewForwarder(f.access(t, pki.PeerIdentity(clusterID, "gone", 1)))
	defer forward.Close()
	leader := raftstore.Server{ID: "h1", Address: ServerAddress("h1", addr)}
	if _, err := forward.Propose(t.Context(), leader, nil); errors.Is(err, ErrNotMember) ||
		!errors.Is(err, logerr.ErrNotLeader) {
		t.Errorf("a follower answered %v, want ErrNotLeader", err)
	}
	log.leads = true
	if _, err := forward.Propose(t.Context(), leader, nil); !errors.Is(err, ErrNotMember) {
		t.Errorf("the leader answered %v, want ErrNotMember", err)
	}
}

// A peer that is admitted while the leader proves that it leads is no removed one,
// nor is one of which the leader has yet to apply the entry.
func TestJoinerIsNotTakenForARemovedPeer(t *testing.T) {
	f := newFixture(t)
	before := f.state.View()
	admit := func() fsm.View {
		do := &doer{f: f}
		res, err := do.Do(t.Context(), "",
			membership.PutMember{Member: membership.Member{ID: "late", Name: "late", Address: "late:1", Version: fsm.Version}})
		if err := errors.Join(err, res.Err()); err != nil {
			t.Fatal(err)
		}
		return f.state.View()
	}
	log := &served{view: before, leads: true, index: before.Index() + 1}
	addr := f.serve(t, NewRoutes(log, admission.NewController()))
	forward := NewForwarder(f.access(t, pki.PeerIdentity(clusterID, "late", 1)))
	defer forward.Close()
	leader := raftstore.Server{ID: "h1", Address: ServerAddress("h1", addr)}
	if _, err := forward.Propose(t.Context(), leader, nil); !errors.Is(err, logerr.ErrBusy) {
		t.Errorf("joiner-is-not-removed: the entry is not applied: %v", err)
	}
	log.confirming = func() { log.view = admit() }
	if _, err := forward.Propose(t.Context(), leader, nil); err != nil {
		t.Errorf("joiner-is-not-removed: admitted meanwhile: %v", err)
	}
}

// doer applies commands to the fixture's state.
type doer struct {
	f     *fixture
	index uint64
}

func (d *doer) Do(_ context.Context, _ string, c fsm.Command) (fsm.Result, error) {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	d.index++
	data, err := fsm.Encode(fsm.Header{}, c)
	if err != nil {
		return fsm.Result{}, err
	}
	return d.f.state.Apply(fsm.Entry{Index: d.index + 1, Term: 1, Data: data}), nil
}

func TestJoin(t *testing.T) {
	f := newFixture(t)
	given := Shared{Settings: map[string]string{"raft.timing": "slow"}, Users: []byte("joe:$2y$\n")}
	other := newFixture(t)
	mux := http.NewServeMux()
	mux.Handle("POST "+PathJoin,
		NewAdmission(admission.NewController(), &doer{f: f}, f, time.Now, rand.Reader, slog.New(slog.DiscardHandler),
			func() Shared { return given }))
	addr := f.serve(t, mux)
	unknown, err := pki.NewJoinToken(f.ca.Hash(), time.Now().Add(time.Hour), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := Joiner{Name: "h2", Address: "127.0.0.1:1", Gossip: "127.0.0.1:2", Version: fsm.Version, Wall: time.Now,
		Random: rand.Reader}
	for _, c := range []struct {
		name   string
		change func(*Joiner)
		token  pki.JoinToken
		status int    // of a refusal; 0: another error, or none
		want   string // part of the error; empty: it joins
	}{
		{"good", nil, f.token, 0, ""},
		{"the same again, its first answer lost", nil, f.token, 0, ""},
		{"a token that no peer made", nil, unknown, http.StatusUnauthorized, "token is not known"},
		{"a token of another cluster", nil, other.token, 0, pki.ErrCAHash.Error()},
		{"a clock that is far ahead",
			func(j *Joiner) { j.Wall = func() time.Time { return time.Now().Add(10 * time.Minute) } }, f.token,
			http.StatusBadRequest, "clock"},
		{"a name that is none", func(j *Joiner) { j.Name = "h 2" }, f.token, http.StatusBadRequest, `name "h 2"`},
		{"an address without a port", func(j *Joiner) { j.Address = "host" }, f.token, http.StatusBadRequest,
			`address "host"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := good
			if c.change != nil {
				c.change(&j)
			}
			joined, err := j.Join(t.Context(), addr, c.token)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if m, ok := f.state.View().Member(joined.Answer.ID); !ok || m.Name != j.Name {
					t.Errorf("the member table does not hold %s", joined.Answer.ID)
				}
				if !reflect.DeepEqual(joined.Answer.Shared, given) {
					t.Errorf("it was given %+v", joined.Answer.Shared)
				}
				return
			}
			var refused *JoinError
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if errors.As(err, &refused) && refused.Status != c.status || c.status != 0 && refused == nil {
				t.Errorf("the refusal %v has not status %d", err, c.status)
			}
		})
	}
	if n := len(f.state.View().Members()); n != 2 {
		t.Errorf("%d members, want 2: who joins again takes its own place", n)
	}
}

// TestJoinWithoutAPart: what a peer cannot give a joiner, or is too much, keeps back nothing else, and is told.
func TestJoinWithoutAPart(t *testing.T) {
	f := newFixture(t)
	settings, users := map[string]string{"raft.timing": "slow"}, []byte("joe:$2y$\n")
	given := Shared{}
	routes := NewRoutes(nil, admission.NewController())
	routes.Joiners(PathJoin, NewAdmission(admission.NewController(), &doer{f: f}, f, time.Now, rand.Reader,
		slog.New(slog.DiscardHandler), func() Shared { return given }))
	addr := f.serve(t, routes)
	for name, c := range map[string]struct{ has, want Shared }{
		"users cannot be read": {Shared{Settings: settings, NoUsers: "gone"}, Shared{Settings: settings, NoUsers: "gone"}},
		"too many users": {Shared{Settings: settings, Users: make([]byte, MaxShared+1)},
			Shared{Settings: settings, NoUsers: "65537 bytes are too many to give a joiner, at most 65536"}},
		"too many settings": {Shared{Settings: map[string]string{"a": strings.Repeat("x", MaxShared)}, Users: users},
			Shared{Users: users, NoSettings: "65537 bytes are too many to give a joiner, at most 65536"}},
	} {
		given = c.has
		joined, err := joiner("h2").Join(t.Context(), addr, f.token)
		if err != nil || !reflect.DeepEqual(joined.Answer.Shared, c.want) {
			t.Errorf("join-without-a-part: %s: %v, %.300v", name, err, joined)
		}
	}
}
