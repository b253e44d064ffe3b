package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// A peer takes no part in raft while another member knows that its disk held more.
// It waits for their answers, and silence is no objection; but who speaks is asked
// before it is heard.
func TestRolledBackPeerSpeaksNoRaft(t *testing.T) {
	for name, c := range map[string]struct {
		stored  fencing.Token
		answers map[string]Rights
		late    map[string]Rights // of those that answer a minute later
		refused bool
	}{
		"as much as it said": {9, map[string]Rights{"h2": {Member: true, Applied: 9}}, nil, false},
		"less than it said":  {8, map[string]Rights{"h2": {Member: true, Applied: 9}}, nil, true},
		"one of two knows better": {8, map[string]Rights{"h2": {Member: true, Applied: 7}, "h3": {Member: true, Applied: 9}},
			nil, true},
		"of a new member": {0, map[string]Rights{"h2": {}}, nil, false},
		"no answer":       {8, nil, nil, false},
		"late-witness: h2": {8, map[string]Rights{"h3": {Member: true, Applied: 7}},
			map[string]Rights{"h2": {Member: true, Applied: 9}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				known := Known{Members: []string{"h2@h2:1", "h3@h3:1"}}
				a := NewAccess(f.end(t, pki.PeerIdentity(clusterID, "h1", 1)), known, slog.New(slog.DiscardHandler))
				later := time.Now().Add(time.Minute)
				ask := func(ctx context.Context, m membership.Member, path string) ([]byte, error) {
					r, ok := c.answers[m.ID]
					if !ok && !time.Now().Before(later) {
						r, ok = c.late[m.ID]
					}
					if !ok {
						<-ctx.Done() // as a host that is switched off
						return nil, ctx.Err()
					}
					if path != PathRights+"h1" {
						r = Rights{}
					}
					return json.Marshal(r)
				}
				told := 0
				a.Follow(seen{view: fsm.New().View(), behind: true}, ask, Own{c.stored, func(error) { told++ }})
				early := c.refused && c.late == nil
				var rolled *RolledBackError
				if err := a.Authorize("h2"); errors.As(err, &rolled) != early || err != nil && !early {
					t.Errorf("a request of raft: %v", err)
				}
				if err := a.RolledBack(); errors.As(err, &rolled) != early {
					t.Errorf("rolled back: %v", err)
				}
				time.Sleep(time.Minute)
				if err := a.Authorize("h2"); errors.As(err, &rolled) != c.refused {
					t.Errorf("%s: a request of raft a minute later: %v", name, err)
				}
				if (told > 0) != c.refused {
					t.Errorf("the peer was told %d times", told)
				}
			})
		})
	}
}

// A voter whose network comes up after it began asks who speaks to it, however its first question failed,
// and one that refused its question soon again.
func TestWhoSpeaksIsAskedWhenTheNetworkIsUp(t *testing.T) {
	for name, c := range map[string]struct {
		hangs       bool          // a question that fails does so after inquiryLimit
		up, speaks  time.Duration // when h2 answers, and when it is first heard, from the start
		heardBefore bool          // it was heard, unexamined, at the start
	}{
		"refused, spoken to at once":  {up: time.Millisecond, speaks: 2 * time.Millisecond},
		"refused, spoken to later":    {up: time.Second, speaks: 3 * time.Second},
		"hung, spoken to right after": {hangs: true, up: inquiryLimit, speaks: inquiryLimit},
		"hung, spoken to later":       {hangs: true, up: inquiryLimit, speaks: 5 * time.Second},
		"refused while it was heard":  {up: time.Millisecond, speaks: failureFor, heardBefore: true},
		"hung, heard":                 {hangs: true, up: 2 * inquiryLimit, speaks: 5 * time.Second, heardBefore: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				a := NewAccess(f.end(t, pki.PeerIdentity(clusterID, "h1", 1)), Known{Members: []string{"h2@h2:1"}},
					slog.New(slog.DiscardHandler))
				began, asked := time.Now(), 0
				ask := func(ctx context.Context, _ membership.Member, path string) ([]byte, error) {
					asked++
					if time.Since(began) >= c.up {
						return json.Marshal(Rights{Member: true, Applied: 9})
					}
					if c.hangs {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return nil, errors.New("network is unreachable")
				}
				a.Follow(seen{view: fsm.New().View(), behind: true}, ask, Own{8, func(error) {}})
				if c.heardBefore {
					for range 100 {
						if err := a.vouched("h2"); err != nil {
							t.Fatalf("heard while it does not answer: %v", err)
						}
					}
					if asked != 2 {
						t.Errorf("network-up: asked %d times at once", asked)
					}
				}
				time.Sleep(c.speaks - time.Since(began)) // in a bubble
				var rolled *RolledBackError
				if err := a.vouched("h2"); !errors.As(err, &rolled) {
					t.Errorf("network-up: who knows better is heard: %v", err)
				}
			})
		})
	}
}

// A member that refused a question about a peer is asked again after failureFor; one that was
// silent holds up no election again before verdictFor.
func TestFailedInquiryIsRepeatedSoon(t *testing.T) {
	for name, c := range map[string]struct {
		hangs bool
		after time.Duration
		found bool
	}{
		"refused, at once":   {false, failureFor / 2, false},
		"refused, a second":  {false, failureFor + time.Millisecond, true},
		"silent, a second":   {true, failureFor + time.Millisecond, false},
		"silent, long after": {true, verdictFor + time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := false
				ask := Asker(func(ctx context.Context, m membership.Member, _ string) ([]byte, error) {
					if m.ID == "h3" {
						return json.Marshal(Rights{Member: true, Current: true})
					}
					if up {
						return json.Marshal(Rights{Removed: true, Current: true})
					}
					if c.hangs {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return nil, errors.New("refused")
				})
				q := newInquiry()
				q.ask.Store(&ask)
				members := []membership.Member{{ID: "h2"}, {ID: "h3"}}
				if err := q.askMembers("x", members); err != nil {
					t.Fatal(err)
				}
				up = true
				time.Sleep(c.after) // in a bubble
				if err := q.askMembers("x", members); errors.Is(err, ErrRemovedPeer) != c.found {
					t.Errorf("inquiry-repeated: %v", err)
				}
			})
		})
	}
}

// The first session of a process tells how far earlier ones had come. Later ones
// would tell of the process itself.
func TestSessionTellsOfARollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newScriptedLog(t)
		applied := fencing.At(log.state.View().Base(), 1)
		withSession(t, log, func(s *Session) {
			if _, err := log.Propose(
				t.Context(), fsm.Header{}, membership.RenewSession{Session: s.ID(), Applied: 1}); err != nil {
				t.Error(err)
			}
		})
		for stored, want := range map[fencing.Token]bool{applied: false, applied - 1: true} {
			s := NewSession(SessionOptions{Log: log, Self: Self{Peer: "h1", Boot: "b2", Knows: fsm.Version},
				Stored: stored, Wall: time.Now,
				Random: rand.Reader, RolledBack: func(error) {}})
			var rolled *RolledBackError
			if err := s.renewOnce(t.Context()); errors.As(err, &rolled) != want || s.ID().IsZero() != want {
				t.Errorf("stored %v of %v: %v, session %v", stored, applied, err, s.ID())
			}
			if want {
				continue
			}
			if _, err := log.Propose(
				t.Context(), fsm.Header{}, membership.RenewSession{Session: s.ID(), Applied: 2}); err != nil {
				t.Error(err)
			}
			s.set(0, time.Time{}) // it ended
			if err := s.renewOnce(t.Context()); err != nil {
				t.Errorf("false-alarm: the next session of the same process: %v", err)
			}
		}
	})
}

// A member that answers for the first time when this process has worked for long
// knows what this process has reported: that is no rollback.
func TestLateWitnessKnowsTheProcessItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		known := Known{Members: []string{"h2@h2:1"}}
		a := NewAccess(f.end(t, pki.PeerIdentity(clusterID, "h1", 1)), known, slog.New(slog.DiscardHandler))
		view := f.View()
		reported := fencing.At(view.Base(), view.Index())
		later := time.Now().Add(time.Minute)
		ask := func(ctx context.Context, _ membership.Member, _ string) ([]byte, error) {
			if time.Now().Before(later) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return json.Marshal(Rights{Member: true, Applied: reported})
		}
		a.Follow(seen{view: view, behind: true}, ask, Own{0, func(err error) { t.Errorf("false-alarm: %v", err) }})
		if err := a.RolledBack(); err != nil {
			t.Errorf("false-alarm: %v", err)
		}
		time.Sleep(time.Minute)
		var rolled *RolledBackError
		if err := a.Authorize("h2"); errors.As(err, &rolled) {
			t.Errorf("false-alarm: %v", err)
		}
	})
}

// A process that opened its first session before the log recorded progress takes what
// a later session tells for its own.
func TestSessionOfAnUpgradedClusterIsNoRollback(t *testing.T) {
	s := &Session{opts: SessionOptions{Stored: 1}}
	if err := s.examine(fsm.Result{}); err != nil {
		t.Fatal(err)
	}
	told, err := cbor.Marshal(membership.Opened{Applied: 6})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.examine(fsm.Result{Value: told}); err != nil {
		t.Errorf("false-alarm: %v", err)
	}
}
