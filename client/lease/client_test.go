package lease_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/client/lease"
)

// TestDeadlineCountsFromBeforeTheQuestion: an answer says how long the lease lasts,
// and not when that began.
func TestDeadlineCountsFromBeforeTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.rule(slow(900*time.Millisecond), peers...)
		h := s.hold(t, nil)
		for _, want := range []time.Duration{ttl - margin, ttl/3 + ttl - margin} { // acquired, then renewed
			if d := h.Deadline(); d > want && d <= want+time.Second {
				t.Errorf("deadline %v: counted from the answer", d)
			} else if d != want {
				t.Errorf("deadline %v, want a margin before the end: %v", d, want)
			}
			time.Sleep(ttl / 2)
		}
	})
}

// TestLostAnswerIsAskedForAgain: the same request is the same grant.
func TestLostAnswerIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.rule(loses, "h1", "h2")
		if h := s.hold(t, nil); h.Token() != 107 || s.Newest() != 107 {
			t.Errorf("token %d, and the newest is %d: granted more than once", h.Token(), s.Newest())
		}
	})
}

// TestRepeatedRequestCountsFromTheFirst: that may be the one that was granted.
func TestRepeatedRequestCountsFromTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.rule(slow(time.Minute), "h1")
		h := s.hold(t, nil)
		if d := h.Deadline(); d > ttl-margin {
			t.Errorf("deadline %v, %v after the lease's end less a margin", d, d-(ttl-margin))
		}
	})
}

// TestHeldThroughABadTime: peers that say 503, or nothing, cost a lease nothing while
// one that answers comes back in time.
func TestHeldThroughABadTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		h := s.hold(t, nil)
		for _, bad := range []rule{leaderless, silent, loses} {
			time.Sleep(ttl/3 - 2*time.Second)
			s.rule(bad, peers...)
			time.Sleep(ttl / 3) // and 2 s are left
			s.rule(nil, "h3")
			time.Sleep(ttl / 3)
			if err := h.Err(); err != nil {
				t.Fatal(err)
			}
			s.rule(nil, peers...)
			time.Sleep(ttl)
		}
	})
}

// TestOneDeadPeerDoesNotEatTheMargin: the next is asked before the time of the first
// is over.
func TestOneDeadPeerDoesNotEatTheMargin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, dead := range peers {
			s := newSite()
			s.rule(silent, dead)
			var last time.Duration
			h := s.hold(t, func(o *lease.Options) {
				o.OnRenewed = func(time.Duration) {
					if gap := s.now() - last; gap > ttl/3+ttl/24+time.Millisecond {
						t.Errorf("%s is dead: renewed after %v", dead, gap)
					}
					last = s.now()
				}
			})
			time.Sleep(10 * ttl)
			if err := h.Err(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestEndsAtTheDeadline: when nobody answers any more, the lease is over a margin
// before its end, and the cause tells why.
func TestEndsAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		h := s.hold(t, nil)
		time.Sleep(3*ttl + time.Second)
		s.rule(leaderless, peers...)
		deadline := h.Deadline()
		<-h.Done()
		if late := s.now() - deadline; late < 0 || late > time.Millisecond {
			t.Errorf("over %v after the deadline", late)
		}
		var none *api.NoAnswerError
		err := context.Cause(h.Context())
		if !errors.Is(err, lease.ErrDeadline) || !errors.As(err, &none) || h.Context().Err() == nil {
			t.Errorf("cause %v, Err %v", err, h.Context().Err())
		}
		s.rule(nil, peers...)
		time.Sleep(ttl)
		if h.Valid() || h.Deadline() != deadline {
			t.Errorf("held again until %v", h.Deadline())
		}
	})
}

// TestStoppedProcessLooksAtTheClock: after a stop, or a sleep of the machine, no timer
// has fired yet, and the lease is over already.
func TestStoppedProcessLooksAtTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		h := s.hold(t, nil)
		child, cancel := context.WithCancel(h.Context())
		defer cancel()
		s.jump(ttl - margin)
		if h.Context().Err() == nil || h.Valid() {
			t.Fatal("it goes on after its deadline")
		}
		synctest.Wait()
		if !errors.Is(context.Cause(child), lease.ErrDeadline) {
			t.Errorf("cause of what was derived from it: %v", context.Cause(child))
		}

		s = newSite()
		h = s.hold(t, nil)
		s.jump(ttl)
		before := time.Now()
		<-h.Done() // nobody looked
		if late := time.Since(before); late > ttl/32 {
			t.Errorf("noticed after %v", late)
		}
	})
}

// TestLateRenewalRevivesNothing: it was answered in time, and read when the lease had
// ended.
func TestLateRenewalRevivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		var told deadlines
		h := s.hold(t, func(o *lease.Options) { o.OnRenewed = told.add })
		s.rule(func(_ *http.Request, serve func() *http.Response) (*http.Response, error) {
			answer := serve()
			s.jump(ttl)
			return answer, nil
		}, peers...)
		<-h.Done()
		synctest.Wait()
		if all := told.all(); len(all) != 1 {
			t.Errorf("deadlines %v", all)
		}
	})
}

// TestDeadlinesAreTold: the first one before Acquire returns, later ones in order.
func TestDeadlinesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		var told deadlines
		h := s.hold(t, func(o *lease.Options) { o.OnRenewed = told.add })
		if first := told.all(); len(first) != 1 || first[0] != h.Deadline() {
			t.Fatalf("told %v, deadline %v", first, h.Deadline())
		}
		time.Sleep(ttl)
		synctest.Wait()
		if want := []time.Duration{8 * time.Second, 12 * time.Second, 16 * time.Second,
			20 * time.Second}; !slices.Equal(told.all(), want) {
			t.Errorf("told %v, want %v", told.all(), want)
		}
	})
}

// TestReleaseWaitsForWhoIsTold: when it has returned nobody is told any more.
func TestReleaseWaitsForWhoIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		var told, returned atomic.Int32
		goOn := make(chan struct{})
		h := s.hold(t, func(o *lease.Options) {
			o.OnRenewed = func(time.Duration) {
				if told.Add(1) == 2 {
					<-goOn
				}
				returned.Add(1)
			}
		})
		time.Sleep(ttl/3 + time.Millisecond)
		synctest.Wait()
		released := make(chan error, 1)
		go func() { released <- h.Release(t.Context()) }()
		synctest.Wait()
		if len(released) != 0 || told.Load() != 2 || s.Ends("backup").After(time.Now()) {
			t.Errorf("release-waits: released %v while OnRenewed runs (told %d times); the cluster's time ends %v",
				len(released), told.Load(), s.Ends("backup"))
		}
		close(goOn)
		if err := <-released; err != nil || returned.Load() != 2 {
			t.Errorf("release-waits: %v, OnRenewed returned %d times", err, returned.Load())
		}
		time.Sleep(2 * ttl)
		if told.Load() != 2 {
			t.Errorf("told %d times", told.Load())
		}
	})
}

// TestReleaseByWhoIsTold is against the rules, and ends all the same: with its context.
func TestReleaseByWhoIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		var held atomic.Pointer[lease.Held]
		ended := make(chan error, 1)
		h := s.hold(t, func(o *lease.Options) {
			o.OnRenewed = func(time.Duration) {
				if h := held.Load(); h != nil {
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					defer cancel()
					ended <- h.Release(ctx)
				}
			}
		})
		held.Store(h)
		time.Sleep(ttl/3 + 2*time.Second)
		synctest.Wait()
		if len(ended) != 1 || <-ended != nil || s.Ends("backup").After(time.Now()) {
			t.Errorf("it still waits, or the lease is held until %v", s.Ends("backup"))
		}
	})
}

// TestTakenOver: the next renewal is refused, and that is the end at once.
func TestTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		first := s.hold(t, nil)
		second := s.hold(t, func(o *lease.Options) { o.Takeover = true })
		if second.Token() <= first.Token() {
			t.Fatalf("tokens %d, then %d", first.Token(), second.Token())
		}
		time.Sleep(ttl/3 + time.Millisecond)
		if err := first.Err(); !errors.Is(err, lease.ErrLost) || !api.HasStatus(err, http.StatusConflict) {
			t.Errorf("%v", err)
		}
		asked := s.asked.Load()
		if err := first.Release(t.Context()); err != nil || s.asked.Load() != asked {
			t.Errorf("released what is another's: %v", err)
		}
		if err := second.Err(); err != nil {
			t.Error(err)
		}
	})
}

// TestReleased: the next holder has it at once, and the second release finds nothing.
func TestReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		h := s.hold(t, nil)
		s.rule(loses, "h1")
		for range 2 {
			if err := h.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if !errors.Is(context.Cause(h.Context()), lease.ErrReleased) {
			t.Error(context.Cause(h.Context()))
		}
		s.hold(t, func(o *lease.Options) { o.Holder, o.NoWait = "host-8", true })
		if since := s.now(); since > ttl/12 {
			t.Errorf("had %v later", since)
		}
	})
}

// TestReleaseThatNoServerHears tries for a ttl, not for ever.
func TestReleaseThatNoServerHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		h := s.hold(t, nil)
		s.rule(leaderless, peers...)
		var none *api.NoAnswerError
		if err := h.Release(context.Background()); !errors.As(err, &none) ||
			!strings.Contains(err.Error(), "ends by itself") {
			t.Error(err)
		}
		if took := s.now(); took > ttl+time.Second {
			t.Errorf("after %v", took)
		}
	})
}

// TestWaits for a holder that does not renew, and says who it is to whoever will not.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		if err := s.hold(t, func(o *lease.Options) {
			o.Holder, o.TTL = "host-8", 40*time.Second
		}).Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.Extend("backup", 40*time.Second) // and nobody renews it
		_, err := s.client(t, func(o *lease.Options) { o.NoWait = true }).Acquire(t.Context())
		if !api.HasStatus(err, http.StatusConflict) || !strings.Contains(err.Error(), "host-8") {
			t.Errorf("%v", err)
		}
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err = s.client(t, nil).Acquire(short); !api.HasStatus(err, http.StatusConflict) {
			t.Errorf("%v", err)
		}
		var refusals atomic.Int32
		s.hold(t, func(o *lease.Options) { o.OnRefused = func(error) { refusals.Add(1) } })
		if refusals.Load() == 0 {
			t.Error("nobody was told of the wait")
		}
		if at := s.now(); at < 40*time.Second || at > 45*time.Second {
			t.Errorf("acquired after %v", at)
		}
	})
}

// TestReleasedLeaseIsTakenAtOnce by whoever waits, whenever that is.
func TestReleasedLeaseIsTakenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, held := range []time.Duration{time.Second, ttl - time.Millisecond, 25 * time.Second} {
			s := newSite()
			s.rule(s.waits, peers...)
			first := s.hold(t, func(o *lease.Options) { o.Holder = "host-8" })
			time.AfterFunc(held, func() {
				if err := first.Release(context.Background()); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Millisecond)
			h := s.hold(t, nil)
			if late := s.now() - held; late < 0 || late > 10*time.Millisecond || !h.Valid() {
				t.Errorf("held for %v, taken %v later", held, late)
			}
		}
	})
}

// TestGrantAfterAWaitIsRenewed: its time counts from before the wait, and is over.
func TestGrantAfterAWaitIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.rule(func(r *http.Request, serve func() *http.Response) (*http.Response, error) {
			if r.Method == http.MethodPut {
				if err := pass(r.Context(), 9*time.Second); err != nil {
					return nil, err
				}
			}
			return serve(), nil
		}, peers...)
		h := s.hold(t, nil)
		if !h.Valid() || h.Deadline() != s.now()+ttl-margin {
			t.Errorf("valid %v, deadline %v at %v", h.Valid(), h.Deadline(), s.now())
		}
	})
}

// TestFull: that there is no room is the cluster's word, also while a peer is dead. It ends
// no lease that is held.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		h := s.hold(t, nil)
		s.rule(crowded, "h1", "h2")
		s.rule(silent, "h3")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := s.client(t, func(o *lease.Options) { o.Name = "other" }).Acquire(ctx); !api.HasStatus(err,
			http.StatusInsufficientStorage) || s.now() > ttl {
			t.Errorf("no room: %v after %v", err, s.now())
		}
		time.Sleep(ttl/3 + time.Second)
		if err := h.Err(); err != nil {
			t.Errorf("a renewal for which there was no room just now: %v", err)
		}
		s.rule(nil, peers...)
		time.Sleep(2 * ttl)
		if err := h.Err(); err != nil {
			t.Error(err)
		}
	})
}

// TestOnePeerLendsNothing: what one peer refuses another may do; what all refuse is
// refused.
func TestOnePeerLendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		off := func(r *http.Request, _ func() *http.Response) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody}, nil
		}
		s.rule(off, "h1", "h2")
		s.hold(t, nil)
		s.rule(off, "h3")
		if _, err := s.client(t, nil).Acquire(t.Context()); !api.HasStatus(err, http.StatusNotFound) {
			t.Errorf("%v", err)
		}
		s.rule(leaderless, "h3")
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var none *api.NoAnswerError
		if _, err := s.client(t, nil).Acquire(short); !errors.As(err, &none) {
			t.Errorf("%v", err)
		}
	})
}

// TestOptions names what is amiss.
func TestOptions(t *testing.T) {
	for field, break1 := range map[string]func(*lease.Options){
		"Name":   func(o *lease.Options) { o.Name = "" },
		"Holder": func(o *lease.Options) { o.Holder = "" },
		"TTL":    func(o *lease.Options) { o.TTL = 25 * time.Hour },
		"Margin": func(o *lease.Options) { o.Margin = o.TTL },
		"server": func(o *lease.Options) { o.API.Servers = nil },
		"://":    func(o *lease.Options) { o.API.Servers = []string{"http://h1", "://h2"} },
	} {
		o := lease.Options{API: api.Options{Servers: []string{"http://h1"}}, Name: "backup", Holder: "h", TTL: ttl}
		break1(&o)
		if _, err := lease.New(o); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	day := lease.Options{API: api.Options{Servers: []string{"http://h1"}}, Name: "backup", Holder: "h",
		TTL: 24 * time.Hour}
	if _, err := lease.New(day); err != nil {
		t.Errorf("a lease of a day: %v", err)
	}
	if a, b := lease.Boottime(), lease.Boottime(); a <= 0 || b < a {
		t.Errorf("booted %v ago, then %v", a, b)
	}
}

// kubeObject is the part of a Kubernetes object that Annotate uses.
type kubeObject map[string]string

func (o *kubeObject) GetAnnotations() map[string]string    { return *o }
func (o *kubeObject) SetAnnotations(all map[string]string) { *o = all }

// TestAnnotate: the token is set next to other annotations, and the map that the
// object had, which a cache may share, is left alone.
func TestAnnotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newSite().hold(t, nil)
		shared := kubeObject{"a": "b", lease.Annotation: "3"}
		for _, o := range []kubeObject{nil, shared} {
			had := len(o)
			h.Annotate(&o)
			if o[lease.Annotation] != strconv.FormatUint(h.Token(), 10) || len(o) != max(had, 1) {
				t.Errorf("the object has %v, the token is %d", o, h.Token())
			}
		}
		if shared[lease.Annotation] != "3" {
			t.Errorf("the object's own map became %v", shared)
		}
	})
}
