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
