package datadir

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// strikesWanted is how often recover, restore and join are struck, each: once
// at every step, or more often where TRIVET_STRIKES says so.
func strikesWanted(t *testing.T) int {
	t.Helper()
	text := os.Getenv("TRIVET_STRIKES")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("TRIVET_STRIKES: %v", err)
	}
	return n
}

const struckCluster = "5f0c1f3e-0000-4000-8000-000000000001"

// admitting is the peer of a cluster that admits hosts: real but for its log, which
// is a state alone.
type admitting struct {
	t       *testing.T
	ca      *pki.CA
	token   pki.JoinToken
	address string
	// lose, if set, loses the next request or its answer.
	lose struct{ request, answer bool }
	// leaderless has it hear of no leader; answers are statuses that it answers paths with.
	leaderless bool
	answers    map[string]int

	mu    sync.Mutex
	state *fsm.State
}

// View implements cluster.JoinLog.
func (a *admitting) View() fsm.View {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state.View()
}

// Read implements cluster.JoinLog.
func (a *admitting) Read(context.Context) (fsm.View, error) {
	if a.leaderless {
		return fsm.View{}, logerr.ErrNoLeader
	}
	return a.View(), nil
}

// Do implements cluster.Doer.
func (a *admitting) Do(_ context.Context, _ string, c fsm.Command) (fsm.Result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.leaderless {
		return fsm.Result{}, logerr.ErrNoLeader
	}
	data, err := fsm.Encode(fsm.Header{}, c)
	if err != nil {
		return fsm.Result{}, err
	}
	return a.state.Apply(fsm.Entry{Index: a.state.View().Index() + 1, Term: 1, Data: data}), nil
}

func (a *admitting) must(c fsm.Command) {
	a.t.Helper()
	if res, err := a.Do(a.t.Context(), "", c); err != nil || res.Err() != nil {
		a.t.Fatal(err, res.Err())
	}
}

func (a *admitting) issue(peer string, incarnation uint64) *pki.Credentials {
	a.t.Helper()
	cred, err := cluster.Issue(a.ca, pki.PeerIdentity(struckCluster, peer, incarnation), time.Now(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return cred
}

// newAdmitting is a cluster of h1, of which the member old, if set, is a former
// member: it was founded again.
func newAdmitting(t *testing.T, old *membership.Member) *admitting {
	t.Helper()
	a := &admitting{t: t}
	var err error
	if a.ca, err = pki.NewCA(struckCluster, time.Now(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	key, err := a.ca.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	self := membership.Member{ID: "id-h1", Name: "h1", Address: "192.0.2.1:7350", Gossip: "192.0.2.1:7351",
		Version: fsm.Version}
	a.state, err = fsm.Founded(
		fsm.Found{ClusterID: struckCluster, CACert: a.ca.CertPEM(), CAKey: key, GossipKey: make([]byte, 32), Member: self},
		time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if old != nil {
		a.must(membership.PutMember{Member: *old})
		err := a.state.Refound(fsm.Refound{
			Index: a.state.View().Index(), UnixMillis: time.Now().UnixMilli(), NewIncarnation: true, Survivor: "id-h1",
			Former: a.state.View().MayRun("id-h1"),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if a.token, err = pki.NewJoinToken(a.ca.Hash(), time.Now().Add(time.Hour), rand.Reader); err != nil {
		t.Fatal(err)
	}
	a.must(membership.AddJoinToken{ID: a.token.ID, Hash: a.token.SecretHash(), TTL: time.Hour})
	a.serve()
	return a
}

// serve opens the cluster's port.
func (a *admitting) serve() {
	a.t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	cred := a.issue("id-h1", a.state.View().Incarnation())
	end := pki.Endpoint{Credentials: func() *pki.Credentials { return cred }, Now: time.Now, Tolerance: pki.PeerTolerance}
	port, err := cluster.NewPort(a.t.Context(), "127.0.0.1:0", cluster.NewAccess(end, cluster.Known{}, quiet))
	if err != nil {
		a.t.Fatal(err)
	}
	joins := cluster.NewAdmission(admission.NewController(), a, a, time.Now, rand.Reader, quiet,
		func() cluster.Shared { return cluster.Shared{} })
	mux := http.NewServeMux()
	mux.Handle("POST "+cluster.PathJoin, joins)
	mux.Handle("POST "+cluster.PathSettings, joins)
	lossy := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := a.answers[r.URL.Path]; status != 0 {
			w.WriteHeader(status)
			_, _ = w.Write([]byte("{}")) // the joiner is all there is to tell
			return
		}
		if r.URL.Path == cluster.PathSettings {
			mux.ServeHTTP(w, r)
			return
		}
		request, answer := a.lose.request, a.lose.answer
		a.lose.request, a.lose.answer = false, false
		if request {
			panic(http.ErrAbortHandler)
		}
		if answer {
			defer panic(http.ErrAbortHandler)
			w = unheard{w}
		}
		mux.ServeHTTP(w, r)
	})
	if err := port.Serve(lossy, admission.NewController(), quiet); err != nil {
		a.t.Fatal(err)
	}
	a.address = port.Addr().String()
	a.t.Cleanup(func() {
		if err := port.Close(); err != nil {
			a.t.Error(err)
		}
	})
}

// unheard is an answer that gets lost.
type unheard struct{ http.ResponseWriter }

// Write implements http.ResponseWriter.
func (unheard) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (unheard) WriteHeader(int) {}

// Unwrap returns the writer, for its deadlines.
func (u unheard) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// struck is a host that joins and is struck meanwhile.
type struck struct {
	handed bool // to the user of the service
	t      *testing.T
	host   Host
	root   string
	by     *admitting
	was    *Identity // the former member whose data it has; nil: it has none
}

func newStruck(t *testing.T, replaces bool) *struck {
	t.Helper()
	root := filepath.Join(t.TempDir(), "d")
	conf, err := config.Load(config.Sources{Flags: map[string]string{
		"name": "h2", "data_dir": root, "cluster.listen": "127.0.0.1:7350", "gossip.listen": "127.0.0.1:7351",
		"firewall.driver": "noop",
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := &struck{t: t, root: root, host: Host{Config: conf, Wall: time.Now, Random: rand.Reader, Replace: replaces}}
	if !replaces {
		s.by = newAdmitting(t, nil)
		_ = s.open(nil, func(d *Dir) error {
			return d.Depart(Departure{How: DepartedRemoved, Name: "h2", Cluster: struckCluster, At: time.Now()})
		})
		return s
	}
	old := membership.Member{ID: "id-h2", Name: "h2", Address: "127.0.0.1:7350", Gossip: "127.0.0.1:7351",
		Version: fsm.Version}
	s.by = newAdmitting(t, &old)
	s.was = &Identity{ID: old.ID, Name: old.Name, Cluster: struckCluster, Incarnation: 1, Address: old.Address,
		Gossip: old.Gossip}
	_ = s.open(nil, func(d *Dir) error {
		return d.Create(*s.was, Secrets{Credentials: s.by.issue(old.ID, 1),
			Ring: cluster.Ring{Keys: [][]byte{make([]byte, 32)}}},
			func(string) error { return nil }, func() error { return nil })
	})
	return s
}

// open uses the data directory; without faults it must open.
func (s *struck) open(fault func(op, path string) error, use func(*Dir) error) (err error) {
	s.t.Helper()
	d, err := openDataDir(s.root, fault)
	if err != nil {
		if fault == nil {
			s.t.Fatal(err)
		}
		return err
	}
	defer func() {
		if closing := d.Close(); closing != nil {
			s.t.Error(closing)
		}
	}()
	if err = use(d); err != nil && fault == nil && !s.by.lost() {
		s.t.Fatalf("admitted-at-every-step: %v", err)
	}
	return err
}

// lost reports whether a request or an answer is lost in this test.
func (a *admitting) lost() bool { return a.lose.request || a.lose.answer }

// admitted joins.
func (s *struck) admitted(d *Dir) error {
	s.host.HandOver = func() error {
		s.handed = true
		if has, err := d.HasPeer(); has || err != nil {
			s.t.Errorf("handed-over-first: the peer has its name before it belongs to its user: %v", err)
		}
		return nil
	}
	_, err := s.host.Join(s.t.Context(), d, s.by.address, s.by.token)
	return err
}

// whole demands that the host is what it was, or has no peer, or is the member that the
// cluster has for it, and returns whether it is that. One whose old peer can start is a
// former member still: no leader opens before it was heard.
func (s *struck) whole() (member bool) {
	s.t.Helper()
	_ = s.open(nil, func(d *Dir) error {
		id, secrets, err := d.Load()
		if errors.Is(err, ErrNoPeer) {
			return nil
		}
		if err != nil {
			return err
		}
		if s.was != nil && id.ID == s.was.ID && id.Incarnation == 1 {
			if _, waited := s.by.View().FormerMember(id.ID); !waited {
				s.t.Error("admitted-at-every-step: the old peer can start, and no leader waits for it")
			}
			return nil
		}
		member = true
		if shared, err := Unconfigured(s.root); shared == nil || err != nil || !s.handed {
			s.t.Errorf("finished-later: handed over: %t; what the cluster told is %v: %v", s.handed, shared, err)
		}
		if dep, departed, err := Departed(s.root); departed || err != nil {
			s.t.Errorf("admitted-at-every-step: a member with the record that it was %s (%v)", dep.How, err)
		}
		v := s.by.View()
		m, known := v.Member(id.ID)
		if !known || m.Name != "h2" || len(v.Members()) != 2 || secrets.Credentials.Identity.Peer != id.ID ||
			id.Incarnation != v.Incarnation() {
			s.t.Errorf("admitted-at-every-step: the host is %+v with a certificate of %v, and the members are %v", id,
				secrets.Credentials.Identity, v.Members())
		}
		log, err := readLog(d)
		if err == nil && log.Last != 0 {
			s.t.Errorf("admitted-at-every-step: its log ends at %d", log.Last)
		}
		return err
	})
	return member
}

// after demands that what was struck can be repeated, with one member as the end.
func (s *struck) after() {
	s.t.Helper()
	if !s.whole() {
		_ = s.open(nil, s.admitted)
	}
	if !s.whole() {
		s.t.Error("admitted-at-every-step: repeated, and the host is no member")
	}
	if formers := s.by.View().FormerMembers(); len(formers) != 0 {
		s.t.Errorf("admitted-at-every-step: former members %+v", formers)
	}
	if aside, err := filepath.Glob(filepath.Join(s.root, beforePrefix+"join-*", peerFile)); err != nil ||
		len(aside) == 0 == (s.was != nil) {
		s.t.Errorf("admitted-at-every-step: what the old peer had is in %v (%v)", aside, err)
	}
}

// A join fails, or its process is killed, before each change that it makes to the
// disk, or the request or its answer gets lost, on a host that has the data of a former
// member and on one that has none: the host is what it was, without a peer, or a whole
// member, and what it began can be repeated. The cluster has one member for it. Once a
// leader waits no more for the old peer that one cannot start.
func TestAdmissionAtEveryStep(t *testing.T) {
	for name, replaces := range map[string]bool{"join": false, "join --replace": true} {
		t.Run(name, func(t *testing.T) {
			clean := newStruck(t, replaces)
			all := &faults{at: -1, synced: make(map[string]bool), t: t, root: clean.root}
			if err := clean.open(all.change, clean.admitted); err != nil {
				t.Fatal(err)
			}
			if !clean.whole() || len(all.steps) < 5 ||
				!slices.ContainsFunc(all.steps, func(s string) bool { return s == "rename "+peerFolder }) {
				t.Fatalf("steps: %v", all.steps)
			}
			strikes, rounds := 0, 0
			for ; strikes < strikesWanted(t); rounds++ {
				for n, step := range all.steps {
					for _, killed := range []bool{false, true} {
						strikes++
						t.Run(fmt.Sprintf("%02d %s, killed %v", n, step, killed), func(t *testing.T) {
							s := newStruck(t, replaces)
							faults := &faults{at: n, killed: killed, synced: make(map[string]bool), t: t, root: s.root}
							if err := s.open(faults.change, s.admitted); !errors.Is(err, syscall.ENOSPC) {
								t.Fatalf("it ended with %v", err)
							}
							s.after()
						})
					}
				}
				for _, answer := range []bool{false, true} {
					strikes++
					t.Run(fmt.Sprintf("lost, the answer %v", answer), func(t *testing.T) {
						s := newStruck(t, replaces)
						s.by.lose.request, s.by.lose.answer = !answer, answer
						none := &faults{at: -1, synced: make(map[string]bool), t: t, root: s.root}
						if err := s.open(none.change, s.admitted); err == nil {
							t.Fatal("it succeeded without an answer")
						}
						if committed := len(s.by.View().Members()) == 2; committed != answer {
							t.Fatalf("the log has the member: %v", committed)
						}
						s.after()
					})
				}
			}
			t.Logf("%s: struck %d times, at each of %d steps and on the network, in %d rounds", name, strikes, len(all.steps),
				rounds)
		})
	}
}
