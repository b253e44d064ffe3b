package leaderrpc_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/lease"
	"github.com/trivet-ha/trivet/lease/leaderrpc"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/logerr"
	"github.com/trivet-ha/trivet/test/memlog"
)

// site is a leader and a follower that asks it.
type site struct {
	*testing.T
	log     *memlog.Log
	leads   *lease.Service
	asks    *leaderrpc.Leader
	answer  error           // of the leader's role, logerr.ErrNotLeader while it leads
	leading context.Context // ends when the follower hears of another leader
	over    context.CancelCauseFunc
	mute    bool // the leader answers nobody
}

func open(t *testing.T, test func(s *site)) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(t)
		s := &site{T: t, log: log, leads: lease.New(lease.Options{Log: log, Do: log}), answer: logerr.ErrNotLeader}
		defer s.leads.Close()
		s.leading, s.over = context.WithCancelCause(t.Context())
		s.asks = leaderrpc.NewLeader(follower{s}, s)
		test(s)
	})
}

// AskLeader implements leaderrpc.Asker.
func (s *site) AskLeader(ctx context.Context, _ raftstore.Server, path string, question []byte) ([]byte, error) {
	if s.mute {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return leaderrpc.Answer(ctx, leader{s}, s.leads, path, question)
}

type follower struct{ *site }

func (follower) Elsewhere() (raftstore.Server, error) {
	return raftstore.Server{ID: "a", Address: "a@a.example:7350"}, nil
}

func (f follower) WhileLeads(ctx context.Context) (limited context.Context, stop func()) {
	limited, cancel := context.WithCancelCause(ctx)
	detach := context.AfterFunc(f.leading, func() { cancel(context.Cause(f.leading)) })
	return limited, func() { detach(); cancel(nil) }
}

type leader struct{ *site }

func (l leader) Elsewhere() (raftstore.Server, error) { return raftstore.Server{}, l.answer }

func (l leader) WhileLeads(ctx context.Context) (limited context.Context, stop func()) {
	return ctx, func() {}
}

func (s *site) acquire(name string) lease.Grant {
	g, _, err := s.leads.Acquire(s.Context(), lease.Acquisition{Name: name, Holder: "one", TTL: 10 * time.Second})
	if err != nil {
		s.Fatal(err)
	}
	return g
}

func TestStepsAreTakenByTheLeader(t *testing.T) {
	open(t, func(s *site) {
		a, b := s.acquire("a"), s.acquire("b")
		said, err := s.asks.Step(s.Context(), []leases.Step{
			{Name: "a", Holder: "one", Token: a.Token}, {Name: "b", Holder: "two", Token: b.Token},
			{Name: "c", Holder: "one", Token: 1},
		})
		if err != nil || len(said) != 3 || said[0].Code != fsm.OK || said[0].Lease.Token != a.Token ||
			said[1].Code != fsm.Conflict || said[2].Code != fsm.NotFound {
			t.Errorf("%+v, %v", said, err)
		}
		for what, steps := range map[string][]leases.Step{"none": {}, "of no name": {{Holder: "one"}},
			"too many": make([]leases.Step, leases.MaxSteps+1)} {
			if _, err := s.asks.Step(s.Context(), steps); err == nil {
				t.Errorf("steps, %s: accepted", what)
			}
		}
		if _, err := leaderrpc.Answer(s.Context(), leader{s}, s.leads, leaderrpc.PathStep, []byte{0xff}); err == nil {
			t.Error("what is no question was answered")
		}
		if _, err := leaderrpc.Answer(s.Context(), leader{s}, s.leads, "/peer/v1/leases/more", nil); err == nil {
			t.Error("what nobody asks was answered")
		}
	})
}

// TestWhoLeadsIsAsked: a follower sends what it is asked to the leader, and a leader
// answers itself.
func TestWhoLeadsIsAsked(t *testing.T) {
	open(t, func(s *site) {
		if !leaderrpc.NewLeader(follower{s}, s).Elsewhere() {
			t.Error("leads-elsewhere: a follower believes that it leads")
		}
		s.answer = logerr.ErrNotLeader
		if leaderrpc.NewLeader(leader{s}, s).Elsewhere() {
			t.Error("leads-elsewhere: a leader looks for another")
		}
	})
}

// TestOnlyALeaderAnswers: steps would else go from peer to peer.
func TestOnlyALeaderAnswers(t *testing.T) {
	open(t, func(s *site) {
		g := s.acquire("a")
		for _, role := range []error{nil, logerr.ErrNoLeader} {
			s.answer = role
			if _, err := s.asks.Step(s.Context(), []leases.Step{{Name: "a", Holder: "one", Token: g.Token}}); !errors.Is(err,
				logerr.ErrNotLeader) {
				t.Errorf("%v: %v", role, err)
			}
			if err := s.asks.AwaitEnd(s.Context(), "a", g.Token); !errors.Is(err, logerr.ErrNotLeader) {
				t.Errorf("%v: %v", role, err)
			}
		}
	})
}

// TestLeaderThatHangs keeps nobody waiting for longer than it takes to hear of the next.
func TestLeaderThatHangs(t *testing.T) {
	open(t, func(s *site) {
		s.mute = true
		step := []leases.Step{{Name: "a", Holder: "one", Token: 1}}
		began := time.Now()
		if _, err := s.asks.Step(s.Context(), step); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(began) > 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		replaced := errors.New("another leads")
		time.AfterFunc(time.Second, func() { s.over(replaced) })
		began = time.Now()
		if _, err := s.asks.Step(s.Context(), step); !errors.Is(err, replaced) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestEndsAreAwaitedInBounds: the leader is asked about so many leases at once, and the
// others have to do with what their own peer hears.
func TestEndsAreAwaitedInBounds(t *testing.T) {
	open(t, func(s *site) {
		const places = 64
		g := s.acquire("a")
		var waiting sync.WaitGroup
		for n := range places {
			waiting.Go(func() {
				if err := s.asks.AwaitEnd(s.Context(), "a", g.Token); err != nil {
					t.Errorf("waiter %d: %v", n, err)
				}
			})
		}
		synctest.Wait()
		if err := s.asks.AwaitEnd(s.Context(), "a", g.Token); !errors.Is(err, logerr.ErrBusy) {
			t.Errorf("one more: %v", err)
		}
		if _, err := s.leads.Release(s.Context(), "a", "one", g.Token); err != nil {
			t.Error(err)
		}
		waiting.Wait()
		if err := s.asks.AwaitEnd(s.Context(), "a", g.Token); err != nil {
			t.Errorf("when there is a place again: %v", err)
		}
		long := s.acquire("b")
		if err := s.asks.AwaitEnd(s.Context(), "b", long.Token-1); err != nil {
			t.Errorf("another token's: %v", err)
		}
		began := time.Now()
		if err := s.asks.AwaitEnd(s.Context(), "b", long.Token); err == nil || time.Since(began) != lease.MaxWait {
			t.Errorf("nobody waits longer: %v after %v", err, time.Since(began))
		}
	})
}
