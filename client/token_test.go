package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// guarded is a server that takes the tokens from number from on.
type guarded struct {
	*httptest.Server
	mu        sync.Mutex
	challenge string   // of a 401; guarded by mu
	from      int      // guarded by mu
	shown     []string // guarded by mu
}

func newGuarded(t *testing.T, challenge string) *guarded {
	t.Helper()
	g := &guarded{challenge: challenge}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	return g
}

// ServeHTTP implements http.Handler.
func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	token := r.Header.Get("X-Auth-Token")
	g.shown = append(g.shown, token)
	var n int
	if _, err := fmt.Sscanf(token, "token-%d", &n); err != nil || n < g.from {
		w.Header().Set("WWW-Authenticate", g.challenge)
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":{"message":"Authentication required"}}`)) // the client checks
		return
	}
	_,
		_ = w.Write(
		[]byte(
			`{"uuid":"u","state":"waiting","finished":false,"error":null,"started_at":"2026-11-21T10:00:00.000001","finished_at":null,"links":[]}`))
}

func (g *guarded) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

// source gives token-1, token-2… and counts.
type source struct {
	mu    sync.Mutex
	asked int // guarded by mu
	err   error
}

func (s *source) token(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return fmt.Sprintf("token-%d", s.asked), s.err
}

func clientOf(t *testing.T, g *guarded, s *source) *Client {
	t.Helper()
	o := Options{Servers: []string{g.URL}}
	if s != nil {
		o.Token = s.token
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTokenIsGivenToWhoAsks, kept, and renewed when it is no longer taken.
func TestTokenIsGivenToWhoAsks(t *testing.T) {
	g, s := newGuarded(t, `Keystone uri="http://k"`), &source{}
	c := clientOf(t, g, s)
	for range 3 {
		if _, err := c.Status(t.Context(), "u"); err != nil {
			t.Fatal(err)
		}
	}
	if want := fmt.Sprint([]string{"", "token-1", "token-1", "token-1"}); fmt.Sprint(g.shown) != want || s.asked != 1 {
		t.Errorf("shown %v, %d logins; want %s", g.shown, s.asked, want)
	}
	g.set(func() { g.from = 2 })
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := c.Status(t.Context(), "u"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if s.asked != 2 {
		t.Errorf("50 questions logged in %d times", s.asked-1)
	}
	g.set(func() { g.from = 1000 })
	_, err := c.Status(t.Context(), "u")
	var refused *Error
	if !errors.As(err, &refused) || !refused.AsksKeystone() || s.asked != 3 {
		t.Errorf("a token that is never taken: %v, %d logins", err, s.asked-2)
	}
}

// TestTokenIsForNoOtherServer keeps it from servers that want something else.
func TestTokenIsForNoOtherServer(t *testing.T) {
	for _, challenge := range []string{"", "Basic realm=x", "KeystoneX uri=y"} {
		g, s := newGuarded(t, challenge), &source{}
		_, err := clientOf(t, g, s).Status(t.Context(), "u")
		if !HasStatus(err, http.StatusUnauthorized) || s.asked != 0 || len(g.shown) != 1 {
			t.Errorf("%q: %v, %d logins, shown %v", challenge, err, s.asked, g.shown)
		}
	}
}

// TestNoTokenToGive ends the question at once: other servers ask the same.
func TestNoTokenToGive(t *testing.T) {
	g := newGuarded(t, "Keystone uri=x")
	s := &source{err: errors.New("wrong password")}
	if _, err := clientOf(t, g, s).Status(t.Context(), "u"); !errors.Is(err, s.err) || s.asked != 1 || len(g.shown) != 1 {
		t.Errorf("%v, %d logins, shown %v", err, s.asked, g.shown)
	}
	if _, err := clientOf(t, g, nil).Status(t.Context(), "u"); !HasStatus(err, http.StatusUnauthorized) {
		t.Errorf("without a source: %v", err)
	}
}
