package elector_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/lease/elector"
	"github.com/trivet-ha/trivet/test/memlog"
)

// bound is how old a proof may be, hold how long a new name waits.
const (
	bound = 500 * time.Millisecond
	hold  = bound + bound/50
)

// slowLog is a log whose reads take a time, and may be held up.
type slowLog struct {
	*memlog.Log
	mu     sync.Mutex
	takes  time.Duration
	newest time.Time // when the newest read that was answered began
}

func (l *slowLog) Read(ctx context.Context) (fsm.View, error) {
	began := time.Now()
	v, err := l.Log.Read(ctx)
	l.mu.Lock()
	takes := l.takes
	l.mu.Unlock()
	select {
	case <-time.After(takes): // in a bubble
		l.mu.Lock()
		defer l.mu.Unlock()
		l.newest = began
		return v, err
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
}

// age is how long ago the newest read that was answered began.
func (l *slowLog) age() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.newest)
}

func (l *slowLog) take(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.takes = d
}

// rig is a witness in a bubble.
type rig struct {
	*testing.T
	log       *slowLog
	began     time.Time
	elections []*elector.Election
}

func (r *rig) now() time.Duration { return time.Since(r.began) }

// said is who is named at this moment.
func (r *rig) said(n int) elector.Claim { return r.elections[n].Claim().At(r.now()) }

func (r *rig) named(n int, want string) {
	r.Helper()
	if got := r.said(n); got.Name != want {
		r.Errorf("after %v %q is named, want %q", r.now(), got.Name, want)
	}
}

func (r *rig) do(c fsm.Command) fsm.Result {
	r.Helper()
	res, err := r.log.Do(r.Context(), "", c)
	if err != nil || res.Err() != nil {
		r.Fatal(err, res.Err())
	}
	return res
}

// watch runs a test beside a witness of who leads and of a lease.
func watch(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, log: &slowLog{Log: memlog.New(t)}, began: time.Now()}
		r.do(membership.PutMember{
			Member: membership.Member{ID: "b", Name: "h2", Address: "h2.example:7350", Version: fsm.Version}})
		r.do(fsm.Lead{Peer: "a", Boot: "1"})
		w := elector.NewWitness(elector.WitnessOptions{Log: r.log, Bound: bound, Now: r.now,
			Logger:    slog.New(slog.DiscardHandler),
			Elections: []elector.ElectionSource{{Identities: map[string]string{"h2": "host-2"}}, {Lease: "db"}}})
		r.elections = w.Elections()
		ctx, stop := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { w.Run(ctx) })
		synctest.Wait()
		test(r)
		stop()
		done.Wait()
	})
}

// TestNoLeaderIsNamedBeforeEarlierNamesAreOver: a name that another peer may still say
// was confirmed before the new token was seen here.
func TestNoLeaderIsNamedBeforeEarlierNamesAreOver(t *testing.T) {
	watch(t, func(r *rig) {
		r.named(0, "")
		time.Sleep(bound)
		r.named(0, "")
		time.Sleep(hold - bound + time.Millisecond)
		r.named(0, "h1")
		time.Sleep(bound)
		r.do(fsm.Lead{Peer: "b", Boot: "1"})
		elected := r.now()
		for r.said(0).Name != "host-2" {
			if name := r.said(0).Name; name == "h1" && r.now() > elected+bound {
				r.Fatalf("elector-exclusive: %q is named %v after another was elected", name, r.now()-elected)
			}
			time.Sleep(time.Millisecond)
		}
		if took := r.now() - elected; took < hold || took > hold+bound/4+2*time.Millisecond {
			r.Errorf("elector-exclusive: the new leader is named after %v, want %v and a question's interval", took, hold)
		}
		if w := r.said(0); w.Term != 1 || w.Token == 0 {
			r.Errorf("%+v", w)
		}
	})
}

// TestNameCountsFromBeforeTheQuestion: an answer that was long on its way is old when
// it comes.
func TestNameCountsFromBeforeTheQuestion(t *testing.T) {
	watch(t, func(r *rig) {
		r.log.take(bound - 100*time.Millisecond)
		time.Sleep(4 * bound)
		named := 0
		for range 3000 {
			if r.said(0).Name != "" {
				named++
				if age := r.log.age(); age >= bound {
					r.Fatalf("elector-from-before: a name is said %v after its question was put, the bound is %v", age, bound)
				}
			}
			time.Sleep(time.Millisecond)
		}
		if named == 0 {
			r.Error("nobody was named")
		}
	})
}

// TestWithoutQuorumNoLeaderIsNamed: not later than a bound after the last confirmation.
func TestWithoutQuorumNoLeaderIsNamed(t *testing.T) {
	for name, fail := range map[string]func(r *rig){
		"refused": func(r *rig) { r.log.Fail(errors.New("no quorum")) },
		"silent":  func(r *rig) { r.log.take(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			watch(t, func(r *rig) {
				time.Sleep(3 * bound)
				r.named(0, "h1")
				fail(r)
				time.Sleep(bound)
				r.named(0, "")
				time.Sleep(time.Hour)
				r.named(0, "")
				r.log.Fail(nil)
				r.log.take(0)
				time.Sleep(2 * bound)
				r.named(0, "h1")
			})
		})
	}
}

// TestHolderOfALeaseIsNamed as long as it has it, and no longer.
func TestHolderOfALeaseIsNamed(t *testing.T) {
	watch(t, func(r *rig) {
		time.Sleep(3 * bound)
		r.named(1, "")
		first := r.do(leases.Grant{Name: "db", Holder: "one", TTL: 10 * time.Second}).Token
		granted := r.now()
		time.Sleep(2 * bound)
		r.named(1, "one")
		if w := r.said(1); w.Token != first || w.Term != 0 {
			r.Errorf("%+v, the token is %v", w, first)
		}
		for r.now() < granted+10*time.Second {
			r.do(fsm.Probe{}) // cluster time goes on
			time.Sleep(10 * time.Millisecond)
			if w := r.elections[1].Claim(); w.Name != "" && w.Until > granted+10*time.Second+10*time.Millisecond {
				r.Fatalf("elector-remaining: it may be named until %v after its end", w.Until-granted-10*time.Second)
			}
		}
		time.Sleep(11 * time.Millisecond)
		r.named(1, "")
		again := r.do(leases.Grant{Name: "db", Holder: "one", TTL: 10 * time.Second}).Token
		time.Sleep(bound)
		r.named(1, "") // another grant, as if another's
		time.Sleep(bound)
		r.named(1, "one")
		r.do(leases.Release{Name: "db", Holder: "one", Token: again})
		time.Sleep(bound/4 + time.Millisecond)
		r.named(1, "")
	})
}
