package sidecar_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apiclient "github.com/trivet-ha/trivet/client"
	leaseclient "github.com/trivet-ha/trivet/client/lease"
	"github.com/trivet-ha/trivet/lease"
	"github.com/trivet-ha/trivet/lease/elector/sidecar"
	"github.com/trivet-ha/trivet/test/lender"
	"github.com/trivet-ha/trivet/test/memlog"
)

const ttl = 6 * time.Second

// site is a cluster's API, in memory and in a bubble.
type site struct {
	*testing.T
	began   time.Time
	lending *lease.Service
	http    http.Handler
	silent  atomic.Bool // no request arrives that changes anything
	deaf    atomic.Bool // no request arrives
}

// RoundTrip implements http.RoundTripper.
func (s *site) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.deaf.Load() || s.silent.Load() && r.Method != http.MethodGet {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	w := httptest.NewRecorder()
	s.http.ServeHTTP(w, r)
	return w.Result(), nil
}

func (s *site) now() time.Duration { return time.Since(s.began) }

func visit(t *testing.T, test func(s *site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(t)
		s := &site{T: t, began: time.Now(), lending: lease.New(lease.Options{Log: log, Do: log, MinTTL: 2 * time.Second})}
		defer s.lending.Close()
		s.http = lender.Public(s.lending)
		test(s)
	})
}

// candidate is one that runs until stop.
type candidate struct {
	*sidecar.Candidate
	s    *site
	err  error
	stop func()
}

func (s *site) candidate(id string, ttl time.Duration) *candidate {
	s.Helper()
	o := apiclient.Options{Servers: []string{"http://h1:5050"}, Transport: s}
	acquirer, err := leaseclient.New(
		leaseclient.Options{API: o, Name: "elector.default.x", Holder: id, TTL: ttl, Takeover: true, Now: s.now})
	if err != nil {
		s.Fatal(err)
	}
	reader, err := apiclient.New(o)
	if err != nil {
		s.Fatal(err)
	}
	c := &candidate{Candidate: sidecar.New(
		sidecar.Options{ID: id, Lease: "elector.default.x", TTL: ttl, Acquirer: acquirer, Reader: reader, Now: s.now,
			Logger: slog.New(slog.DiscardHandler)}), s: s}
	ctx, cancel := context.WithCancel(s.Context())
	var running sync.WaitGroup
	running.Go(func() { c.err = c.Run(ctx) })
	c.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	s.Cleanup(c.stop)
	return c
}

func (c *candidate) names(want string) {
	c.s.Helper()
	if got := c.Claim().At(c.s.now()); got.Name != want {
		c.s.Errorf("sidecar-names: after %v %q is named, want %q", c.s.now(), got.Name, want)
	}
}

// TestNamesItselfByItsOwnLease, until its deadline, whatever a server says then.
func TestNamesItselfByItsOwnLease(t *testing.T) {
	visit(t, func(s *site) {
		one := s.candidate("one", ttl)
		defer one.stop()
		time.Sleep(time.Second)
		one.names("one")
		if w := one.Mine(); w.Name != "one" || w.Token == 0 || w.Until > ttl {
			t.Errorf("%+v", w)
		}
		time.Sleep(10 * ttl)
		one.names("one")
		s.silent.Store(true)
		cut := s.now()
		until := one.Claim().Until
		for s.now() < until {
			time.Sleep(time.Millisecond)
		}
		for s.now() < cut+2*ttl {
			one.names("") // the cluster's lease lasts on for a third of its ttl
			if w := one.Mine(); w.Name != "" {
				t.Fatalf("%+v", w)
			}
			time.Sleep(10 * time.Millisecond)
		}
		s.silent.Store(false)
		time.Sleep(2 * ttl)
		one.names("one")
	})
}

// TestNamesOthersAsTheyAreRead, and nobody when nobody answers.
func TestNamesOthersAsTheyAreRead(t *testing.T) {
	visit(t, func(s *site) {
		one := s.candidate("one", ttl)
		time.Sleep(time.Second)
		two := s.candidate("two", ttl)
		time.Sleep(ttl)
		one.names("one")
		two.names("one")
		if w := two.Mine(); w.Name != "" {
			t.Errorf("%+v is not ours", w)
		}
		one.stop() // it gives the lease back
		if one.err != nil {
			t.Error(one.err)
		}
		time.Sleep(time.Second)
		one.names("")
		two.names("two")
		three := s.candidate("three", ttl)
		time.Sleep(ttl)
		three.names("two")
		s.deaf.Store(true)
		time.Sleep(ttl/2 + time.Millisecond)
		three.names("")
		time.Sleep(ttl)
		two.names("")
		s.deaf.Store(false)
		two.stop()
		three.stop()
	})
}

// TestPredecessorIsTakenOver: a container that is started anew does not wait for the
// end of a lease of its own.
func TestPredecessorIsTakenOver(t *testing.T) {
	visit(t, func(s *site) {
		if _, _, err := s.lending.Acquire(t.Context(),
			lease.Acquisition{Name: "elector.default.x", Holder: "one", TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		one := s.candidate("one", ttl)
		defer one.stop()
		time.Sleep(time.Second)
		one.names("one")
	})
}

// TestRefusedIsTold: a ttl that is not safe is refused, and not raised.
func TestRefusedIsTold(t *testing.T) {
	visit(t, func(s *site) {
		one := s.candidate("one", time.Second)
		time.Sleep(time.Second)
		one.stop()
		var refused *apiclient.Error
		if !errors.As(one.err, &refused) || refused.Status != http.StatusBadRequest {
			t.Errorf("%v, want 400", one.err)
		}
	})
}

func TestLeaseName(t *testing.T) {
	for _, c := range []struct{ namespace, election, want string }{
		{"kube-system", "kuryr-controller", "elector.kube-system.kuryr-controller"},
		{"default", "a.b", "elector.default.a.b"},
		{"", "a", ""}, {"a", "", ""}, {"a.b", "c", ""}, {"A", "b", ""}, {"a", "B", ""}, {"a", "-b", ""}, {"a", "b/c", ""},
		{"a-", "b", ""},
	} {
		got, err := sidecar.LeaseName(c.namespace, c.election)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}
