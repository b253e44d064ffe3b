package lease_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	api "github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/client/lease"
	"github.com/trivet-ha/trivet/test/lender"
)

// site is three peers before one lender, on a network in memory, and a clock that may
// be ahead of the timers.
type site struct {
	*lender.Lender
	began time.Time

	asked atomic.Int64 // questions so far

	mu    sync.Mutex
	rules map[string]rule // by host
	ahead time.Duration
}

// rule is what becomes of a question at one peer; nil: it is answered.
type rule func(r *http.Request, serve func() *http.Response) (*http.Response, error)

func newSite() *site {
	return &site{Lender: lender.New(), began: time.Now(), rules: make(map[string]rule)}
}

// now is the injected clock.
func (s *site) now() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.began) + s.ahead
}

// jump has the clock go on and no timer fire: the process was stopped, or the machine
// slept.
func (s *site) jump(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

func (s *site) rule(r rule, hosts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, host := range hosts {
		s.rules[host] = r
	}
}

// RoundTrip implements http.RoundTripper.
func (s *site) RoundTrip(r *http.Request) (*http.Response, error) {
	serve := func() *http.Response {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Result()
	}
	s.asked.Add(1)
	s.mu.Lock()
	rule := s.rules[r.Host]
	s.mu.Unlock()
	if rule == nil {
		return serve(), nil
	}
	return rule(r, serve)
}

// What may happen to a peer.
var errReset = errors.New("connection reset by peer")

func silent(r *http.Request, _ func() *http.Response) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func leaderless(*http.Request, func() *http.Response) (*http.Response, error) {
	w := httptest.NewRecorder()
	http.Error(w, "no leader", http.StatusServiceUnavailable)
	return w.Result(), nil
}

// crowded has no room for another lease.
func crowded(*http.Request, func() *http.Response) (*http.Response, error) {
	w := httptest.NewRecorder()
	http.Error(w, "10000 leases exist", http.StatusInsufficientStorage)
	return w.Result(), nil
}

// loses does what it is asked, and its answer is lost.
func loses(_ *http.Request, serve func() *http.Response) (*http.Response, error) {
	serve().Body.Close()
	return nil, errReset
}

// slow answers a while after it did what it was asked.
func slow(d time.Duration) rule {
	return func(r *http.Request, serve func() *http.Response) (*http.Response, error) {
		answer := serve()
		if err := pass(r.Context(), d); err != nil {
			return nil, err
		}
		return answer, nil
	}
}

// waits for a lease that another has, as peers do, for as long as it is asked to.
func (s *site) waits(r *http.Request, serve func() *http.Response) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var asked struct {
		Wait int64 `json:"wait_ms"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	for end := time.Now().Add(time.Duration(asked.Wait) * time.Millisecond); time.Now().Before(s.Ends("backup")) &&
		time.Now().Before(end); {
		if err := pass(r.Context(), time.Millisecond); err != nil {
			return nil, err
		}
	}
	return serve(), nil
}

// pass waits for d, in a bubble.
func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const (
	ttl    = 12 * time.Second
	margin = ttl / 3
)

var peers = []string{"h1", "h2", "h3"}

// client returns a client of all peers; with changes its options.
func (s *site) client(t *testing.T, with func(*lease.Options)) *lease.Client {
	t.Helper()
	o := lease.Options{
		API:  api.Options{Servers: []string{"http://h1", "http://h2", "http://h3"}, Transport: s},
		Name: "backup", Holder: "host-7", TTL: ttl, Now: s.now,
	}
	if with != nil {
		with(&o)
	}
	c, err := lease.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// hold acquires the lease and ends it with the test.
func (s *site) hold(t *testing.T, with func(*lease.Options)) *lease.Held {
	t.Helper()
	h, err := s.client(t, with).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.rule(nil, peers...)
		if err := h.Release(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// deadlines are what a holder was told, in order.
type deadlines struct {
	mu   sync.Mutex
	told []time.Duration
}

func (d *deadlines) add(deadline time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = append(d.told, deadline)
}

func (d *deadlines) all() []time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.told)
}
