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
	"github.com/trivet-ha/trivet/lease"
	"github.com/trivet-ha/trivet/raftstore/logerr"
	"github.com/trivet-ha/trivet/test/memlog"
)

const ttl = 10 * time.Second

// rig is a service over a log of one peer, in a bubble.
type rig struct {
	*testing.T
	*lease.Service
	log *memlog.Log
}

// lend runs a test in virtual time.
func lend(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(t)
		s := lease.New(lease.Options{Log: log, Do: log, MinTTL: 2 * time.Second})
		defer s.Close()
		test(&rig{t, s, log})
	})
}

func (r *rig) acquire(a lease.Acquisition) lease.Grant {
	r.Helper()
	if a.TTL == 0 {
		a.TTL = ttl
	}
	g, _, err := r.Acquire(r.Context(), a)
	if err != nil {
		r.Fatalf("acquire %+v: %v", a, err)
	}
	return g
}

func (r *rig) release(g lease.Grant) error {
	_, err := r.Release(r.Context(), g.Name, g.Holder, g.Token)
	return err
}

func (r *rig) is(err error, want fsm.Code) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Errorf("%v, want %v", err, want)
	}
}

func (r *rig) held(err error, holder string, token fencing.Token) {
	r.Helper()
	var held *lease.Held
	if !errors.As(err, &held) || held.Holder != holder || held.Token != token {
		r.Errorf("%v, want held by %s under %v", err, holder, token)
	}
}

func TestLeaseGoesToTheFirstWhoAsks(t *testing.T) {
	lend(t, func(r *rig) {
		first := r.acquire(lease.Acquisition{Name: "db", Holder: "one", Metadata: "m"})
		if first.Remaining != ttl || first.Metadata != "m" {
			r.Errorf("granted %+v", first)
		}
		_, _, err := r.Acquire(r.Context(), lease.Acquisition{Name: "db", Holder: "two", TTL: ttl})
		r.held(err, "one", first.Token)
		_, _, err = r.Acquire(r.Context(), lease.Acquisition{Name: "db", Holder: "one", TTL: ttl})
		r.held(err, "one", first.Token) // a restarted process inherits nothing
		next := r.acquire(lease.Acquisition{Name: "db", Holder: "one", Takeover: true})
		if next.Token <= first.Token {
			r.Errorf("token %v follows %v", next.Token, first.Token)
		}
		_, err = r.Renew(r.Context(), "db", "one", first.Token)
		r.held(err, "one", next.Token)
		r.held(r.release(first), "one", next.Token)
	})
}

func TestLeaseThatIsOverIsNeverRevived(t *testing.T) {
	lend(t, func(r *rig) {
		g := r.acquire(lease.Acquisition{Name: "db", Holder: "one", Metadata: "m"})
		time.Sleep(ttl - time.Second)
		if again, err := r.Renew(r.Context(), "db", "one", g.Token); err != nil || again != g {
			r.Errorf("renewed to %+v, %v", again, err)
		}
		time.Sleep(ttl)
		_, err := r.Renew(r.Context(), "db", "one", g.Token)
		r.is(err, fsm.Expired)
		if err := r.release(g); err != nil {
			r.Errorf("late and harmless: %v", err)
		}
		_, err = r.Renew(r.Context(), "nobody", "one", g.Token)
		r.is(err, fsm.NotFound)
		next := r.acquire(lease.Acquisition{Name: "db", Holder: "one"})
		if next.Token <= g.Token {
			r.Errorf("token %v follows %v", next.Token, g.Token)
		}
		r.held(r.release(g), "one", next.Token)
		for _, token := range []fencing.Token{next.Token, g.Token} { // it is over, also for whoever had it before
			if _, err := r.Release(r.Context(), "db", "one", token); err != nil {
				r.Errorf("release under %v: %v", token, err)
			}
		}
	})
}

func TestLostAnswerIsAskedForAgain(t *testing.T) {
	lend(t, func(r *rig) {
		a := lease.Acquisition{Name: "db", Holder: "one", Request: "1"}
		g := r.acquire(a)
		a.TTL = ttl
		time.Sleep(4 * time.Second)
		again, repeated, err := r.Acquire(r.Context(), a)
		if err != nil || !repeated || again.Token != g.Token || again.Remaining > ttl-4*time.Second {
			r.Errorf("%+v, repeated %v, %v", again, repeated, err)
		}
		if other := r.acquire(lease.Acquisition{Name: "disk", Holder: "one", Request: "1"}); other.Token == g.Token {
			r.Error("two programs that call theirs 1 got one grant")
		}
		if _, err := r.Renew(r.Context(), "db", "one", g.Token); err != nil {
			r.Error(err)
		}
		again, _, err = r.Acquire(r.Context(), a)
		if err != nil || again.Remaining < ttl-time.Second {
			r.Errorf("of a renewed one: %+v, %v", again, err)
		}
		time.Sleep(ttl + time.Second)
		r.acquire(lease.Acquisition{Name: "db", Holder: "two"})
		_, _, err = r.Acquire(r.Context(), a)
		r.is(err, fsm.Expired) // this request had its grant
		time.Sleep(fsm.Retention + time.Minute)
		r.acquire(lease.Acquisition{Name: "db", Holder: "one", Request: "1"}) // by now it is another's ID
	})
}

// TestPeerAsksAgain: whoever asked once and was granted the lease is told so, also when
// the peer had to ask twice; the repeat of the caller's own is told to be one.
func TestPeerAsksAgain(t *testing.T) {
	lend(t, func(r *rig) {
		r.log.Lose(true)
		a := lease.Acquisition{Name: "db", Holder: "one", TTL: ttl, Request: "1"}
		g, repeated, err := r.Acquire(r.Context(), a)
		if err != nil || repeated || g.Remaining != ttl {
			r.Errorf("%+v, repeated %v, %v", g, repeated, err)
		}
		if again, repeated, err := r.Acquire(r.Context(), a); err != nil || !repeated || again.Token != g.Token {
			r.Errorf("%+v, repeated %v, %v", again, repeated, err)
		}
	})
}

func TestAcquisitionWaits(t *testing.T) {
	for name, c := range map[string]struct {
		release, renew time.Duration // after the first grant; zero: not
		want           time.Duration // since the first grant
		over           time.Duration // at most
	}{
		"until the holder's time is over": {want: ttl, over: 500 * time.Millisecond},
		"until the holder lets it go":     {release: 3 * time.Second, want: 3 * time.Second, over: 50 * time.Millisecond},
		"longer when it is renewed":       {renew: 6 * time.Second, want: 16 * time.Second, over: 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			lend(t, func(r *rig) {
				began := time.Now()
				first := r.acquire(lease.Acquisition{Name: "db", Holder: "one"})
				var holder sync.WaitGroup
				holder.Go(func() {
					time.Sleep(c.release + c.renew)
					if c.renew > 0 {
						if _, err := r.Renew(r.Context(), "db", "one", first.Token); err != nil {
							r.Error(err)
						}
					}
					if c.release > 0 {
						if err := r.release(first); err != nil {
							r.Error(err)
						}
					}
				})
				next := r.acquire(lease.Acquisition{Name: "db", Holder: "two", Wait: lease.MaxWait, Request: "w"})
				if late := time.Since(began) - c.want; late < 0 || late > c.over || next.Token <= first.Token {
					r.Errorf("granted %v late, %+v after %+v", late, next, first)
				}
				if r.log.Entries() > 8 {
					r.Errorf("waiting took %d entries", r.log.Entries())
				}
				holder.Wait()
			})
		})
	}
	t.Run("no longer than asked", func(t *testing.T) {
		lend(t, func(r *rig) {
			first := r.acquire(lease.Acquisition{Name: "db", Holder: "one"})
			began := time.Now()
			_, _, err := r.Acquire(r.Context(), lease.Acquisition{Name: "db", Holder: "two", TTL: ttl, Wait: 4 * time.Second})
			r.held(err, "one", first.Token)
			if took := time.Since(began); took != 4*time.Second {
				r.Errorf("it took %v", took)
			}
			ctx, cancel := context.WithTimeout(r.Context(), time.Second)
			defer cancel()
			if _, _, err := r.Acquire(ctx,
				lease.Acquisition{Name: "db", Holder: "two", TTL: ttl, Wait: 4 * time.Second}); !errors.Is(err,
				context.DeadlineExceeded) {
				r.Errorf("a caller that went away got %v", err)
			}
		})
	})
}

// TestRenewalsShareAnEntry: what comes within a few milliseconds is one entry, and each
// gets its own answer.
func TestRenewalsShareAnEntry(t *testing.T) {
	lend(t, func(r *rig) {
		const holders = 200
		tokens := make([]fencing.Token, holders)
		for n := range holders {
			tokens[n] = r.acquire(lease.Acquisition{Name: fmt.Sprint("l", n), Holder: "one"}).Token
		}
		before := r.log.Entries()
		var asking sync.WaitGroup
		for n := range holders {
			asking.Go(func() {
				token := tokens[n]
				if n%10 == 0 {
					token++ // of nobody's grant
				}
				g, err := r.Renew(r.Context(), fmt.Sprint("l", n), "one", token)
				if n%10 == 0 {
					r.held(err, "one", tokens[n])
				} else if err != nil || g.Token != token {
					r.Errorf("l%d: %+v, %v", n, g, err)
				}
			})
		}
		asking.Wait()
		if took := r.log.Entries() - before; took > holders/50 {
			r.Errorf("%d renewals took %d entries", holders, took)
		}
		r.log.Fail(logerr.ErrNoLeader)
		if _, err := r.Renew(r.Context(), "l1", "one", tokens[1]); !errors.Is(err, logerr.ErrNoLeader) {
			r.Errorf("without a leader: %v", err)
		}
		r.log.Fail(nil)
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		if _, err := r.Renew(ctx, "l1", "one", tokens[1]); !errors.Is(err, logerr.ErrOutcomeUnknown) {
			r.Errorf("of a caller that went away: %v", err)
		}
	})
}

func TestWatchTellsOfChanges(t *testing.T) {
	lend(t, func(r *rig) {
		g := r.acquire(lease.Acquisition{Name: "db", Holder: "one"})
		began := time.Now()
		if same, err := r.Watch(r.Context(), "db", lease.Known{Token: g.Token}, 5*time.Second); err != nil ||
			same.Token != g.Token || time.Since(began) != 5*time.Second {
			r.Errorf("%+v after %v, %v", same, time.Since(began), err)
		}
		go func() {
			time.Sleep(time.Second)
			if err := r.release(g); err != nil {
				r.Error(err)
			}
		}()
		if free, err := r.Watch(r.Context(), "db", lease.Known{Token: g.Token}, 5*time.Second); err != nil ||
			free.Holder != "" || time.Since(began) > 7*time.Second {
			r.Errorf("%+v, %v", free, err)
		}
		began = time.Now()
		go func() {
			time.Sleep(2 * time.Second)
			r.acquire(lease.Acquisition{Name: "db", Holder: "two"})
		}()
		if taken, err := r.Watch(r.Context(), "db", lease.Known{Token: g.Token, Free: true}, 5*time.Second); err != nil ||
			taken.Holder != "two" || time.Since(began) != 2*time.Second {
			r.Errorf("a free one that is known: %+v after %v, %v", taken, time.Since(began), err)
		}
		_, err := r.Watch(r.Context(), "db", lease.Known{}, lease.MaxWait+1)
		r.is(err, fsm.Invalid)
		_, err = r.Get(r.Context(), "nobody", lease.Linearizable)
		r.is(err, fsm.NotFound)
		r.log.Fail(logerr.ErrNoLeader)
		if _, err := r.Get(r.Context(), "db", lease.Linearizable); !errors.Is(err, logerr.ErrNoLeader) {
			r.Errorf("without a quorum: %v", err)
		}
		if old, err := r.Get(r.Context(), "db", lease.Stale); err != nil || old.Token <= g.Token {
			r.Errorf("stale: %+v, %v", old, err)
		}
	})
}

func TestAcquisitionIsChecked(t *testing.T) {
	lend(t, func(r *rig) {
		for name, a := range map[string]lease.Acquisition{
			"ttl below the cluster's least": {Name: "db", Holder: "one", TTL: 2*time.Second - 1},
			"ttl above a day":               {Name: "db", Holder: "one", TTL: 24*time.Hour + 1},
			"no holder":                     {Name: "db", TTL: ttl},
			"no name":                       {Holder: "one", TTL: ttl},
			"a name in capitals":            {Name: "DB", Holder: "one", TTL: ttl},
			"a wait too long":               {Name: "db", Holder: "one", TTL: ttl, Wait: lease.MaxWait + 1},
			"a wait below zero":             {Name: "db", Holder: "one", TTL: ttl, Wait: -1},
		} {
			if _, _, err := r.Acquire(r.Context(), a); !errors.Is(err, fsm.Invalid) {
				r.Errorf("%s: %v", name, err)
			}
		}
		if r.log.Entries() > 0 {
			r.Errorf("%d of them reached the log", r.log.Entries())
		}
	})
}
