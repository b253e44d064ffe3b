package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/lease"
	"github.com/trivet-ha/trivet/raftstore/logerr"
	"github.com/trivet-ha/trivet/test/memlog"
)

// deaf is the log of a follower that hears of nothing new, and may commit by its leader
// alone.
type deaf struct {
	*memlog.Log
	then fsm.View
}

func (d deaf) View() fsm.View { return d.then }

func (d deaf) Wait(ctx context.Context, wanted func(fsm.View) bool) (fsm.View, error) {
	if wanted(d.then) {
		return d.then, nil
	}
	<-ctx.Done()
	return d.then, context.Cause(ctx)
}

// refusing is a Doer that must not be asked.
type refusing struct{ t *testing.T }

func (r refusing) Do(_ context.Context, _ string, c fsm.Command) (fsm.Result, error) {
	r.t.Errorf("%T was proposed beside the leader", c)
	return fsm.Result{}, logerr.ErrBusy
}

// slow is a Doer whose entries take as long as a disk does.
type slow struct{ *memlog.Log }

func (s slow) Do(ctx context.Context, client string, c fsm.Command) (fsm.Result, error) {
	time.Sleep(10 * time.Millisecond)
	return s.Log.Do(ctx, client, c)
}

// asked is a Service as the others see it.
type asked struct{ *lease.Service }

func (asked) Elsewhere() bool { return true }

func TestStepsOfAllPeersShareAnEntry(t *testing.T) {
	lend(t, func(r *rig) {
		leader := lease.New(lease.Options{Log: r.log, Do: slow{r.log}})
		defer leader.Close()
		peers := []*lease.Service{leader}
		for range 2 {
			s := lease.New(lease.Options{Log: r.log, Do: refusing{r.T}, Leader: asked{leader}})
			defer s.Close()
			peers = append(peers, s)
		}
		const each = 20
		var grants []lease.Grant
		for n := range each * len(peers) {
			grants = append(grants, r.acquire(lease.Acquisition{Name: fmt.Sprint("l", n), Holder: "one"}))
		}
		for n, step := range []func(s *lease.Service, g lease.Grant) error{
			func(s *lease.Service, g lease.Grant) error {
				_, err := s.Renew(r.Context(), g.Name, g.Holder, g.Token)
				return err
			},
			func(s *lease.Service, g lease.Grant) error {
				_, err := s.Release(r.Context(), g.Name, g.Holder, g.Token)
				return err
			},
		} {
			name := []string{"renew", "release"}[n]
			before := r.log.Entries()
			var asking sync.WaitGroup
			for n, g := range grants {
				asking.Go(func() {
					if err := step(peers[n%len(peers)], g); err != nil {
						r.Errorf("%s %s: %v", name, g.Name, err)
					}
				})
			}
			asking.Wait()
			if took := r.log.Entries() - before; took > len(grants)/6 {
				r.Errorf("%s: %d steps took %d entries", name, len(grants), took)
			}
		}
	})
}

// lostLeader does what it is asked, and then something else, and is lost before it
// answers.
type lostLeader struct {
	asked
	then func()
	err  error
}

func (l lostLeader) Step(ctx context.Context, steps []leases.Step) ([]leases.Stepped, error) {
	if !errors.Is(l.err, logerr.ErrNotLeader) {
		if _, err := l.Service.Step(ctx, steps); err != nil {
			return nil, err
		}
	}
	l.then()
	return nil, l.err
}

// TestLeaderIsLostWithTheAnswer: a renewal is made again. What became of a release is
// unknown where somebody else has the lease by then, since this may have been its end.
func TestLeaderIsLostWithTheAnswer(t *testing.T) {
	lend(t, func(r *rig) {
		leader := &lostLeader{asked: asked{r.Service}, err: errors.New("reset by peer"), then: func() {}}
		s := lease.New(lease.Options{Log: r.log, Do: r.log, Leader: leader})
		defer s.Close()
		g := r.acquire(lease.Acquisition{Name: "db", Holder: "one"})
		time.Sleep(ttl / 2)
		if again, err := s.Renew(r.Context(), "db", "one", g.Token); err != nil || again.Remaining != ttl {
			r.Errorf("%+v, %v", again, err)
		}
		if _, err := s.Release(r.Context(), "db", "one", g.Token); err != nil {
			r.Errorf("free in any case: %v", err)
		}
		g = r.acquire(lease.Acquisition{Name: "db", Holder: "one"})
		leader.then = func() { r.acquire(lease.Acquisition{Name: "db", Holder: "two"}) }
		_, err := s.Release(r.Context(), "db", "one", g.Token)
		r.is(err, fsm.OutcomeUnknown)
		now, err := r.Get(r.Context(), "db", lease.Linearizable)
		if err != nil || now.Holder != "two" {
			r.Errorf("%+v, %v", now, err)
		}
		leader.err, leader.then = logerr.ErrNotLeader, func() {}
		_, err = s.Release(r.Context(), "db", "one", g.Token) // it was asked once
		r.held(err, "two", now.Token)
	})
}

// TestLeaderTellsTheEnd: whoever waits at a peer that lags hears of a release from the
// leader.
func TestLeaderTellsTheEnd(t *testing.T) {
	lend(t, func(r *rig) {
		g := r.acquire(lease.Acquisition{Name: "db", Holder: "one"})
		s := lease.New(lease.Options{Log: deaf{r.log, r.log.View()}, Do: r.log, Leader: asked{r.Service}})
		defer s.Close()
		began := time.Now()
		go func() {
			time.Sleep(time.Second)
			if err := r.release(g); err != nil {
				r.Error(err)
			}
		}()
		next, _, err := s.Acquire(r.Context(), lease.Acquisition{Name: "db", Holder: "two", TTL: ttl, Wait: 5 * time.Second})
		if took := time.Since(began); err != nil || next.Token <= g.Token || took != time.Second {
			r.Errorf("%+v after %v, %v", next, took, err)
		}
		_, _, err = s.Acquire(r.Context(), lease.Acquisition{Name: "db", Holder: "three", TTL: ttl, Wait: 5 * time.Second})
		r.held(err, "two", next.Token)
		if took := time.Since(began); took != 6*time.Second {
			r.Errorf("it gave up after %v", took)
		}
	})
}

// TestCloseEndsWhatWaits: nobody who asked is left without an answer.
func TestCloseEndsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(t)
		s := lease.New(lease.Options{Log: log, Do: hung{}})
		asked := make(chan error, 2)
		for _, ask := range []func() error{
			func() error { _, err := s.Renew(t.Context(), "db", "one", fencing.Token(1)); return err },
			func() error { _, err := s.Release(t.Context(), "db", "one", fencing.Token(1)); return err },
		} {
			go func() { asked <- ask() }()
		}
		time.Sleep(time.Second)
		s.Close()
		for range 2 {
			if err := <-asked; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if _, err := s.Release(t.Context(), "db", "one", fencing.Token(1)); !errors.Is(err, logerr.ErrBusy) {
			t.Error(err)
		}
	})
}

// hung is a Doer whose answers do not come.
type hung struct{}

func (hung) Do(ctx context.Context, _ string, _ fsm.Command) (fsm.Result, error) {
	<-ctx.Done()
	return fsm.Result{}, ctx.Err()
}
