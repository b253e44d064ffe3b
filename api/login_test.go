package api

import (
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/trivet-ha/trivet/internal/keystone"
	"github.com/trivet-ha/trivet/test/testwait"
)

// site is an API on a real socket, and clients at several addresses of loopback.
type site struct {
	t      *testing.T
	server *httptest.Server
	closed chan struct{} // closed when the test is over
	floods sync.WaitGroup
}

func openSite(t *testing.T, auth Auth) *site {
	i := &Inspector{Service: &fake{}, Auth: auth, MaxLimit: 1, Logger: slog.New(slog.DiscardHandler)}
	s := &site{t: t, server: httptest.NewServer(i.Handler()), closed: make(chan struct{})}
	t.Cleanup(func() {
		close(s.closed)
		s.floods.Wait()
		s.server.Close()
	})
	return s
}

// client sends from an address of this host.
func (s *site) client(address string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 1000}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: testwait.Bound(50 * time.Second)}
}

// ask sends one request and returns the status, 0 if none came.
func (s *site) ask(c *http.Client, prove func(*http.Request)) int {
	r, err := http.NewRequest("GET", s.server.URL+"/v1/introspection", nil)
	if err != nil {
		return 0
	}
	prove(r)
	resp, err := c.Do(r)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is used again; the status is what counts
	return resp.StatusCode
}

// flood sends on so many connections without a pause until the test is over, and
// returns once each was answered or is in line.
func (s *site) flood(address string, connections int, prove func(*http.Request)) {
	s.t.Helper()
	c := s.client(address)
	var sent atomic.Int64
	for range connections {
		s.floods.Go(func() {
			for sent.Add(1); ; {
				select {
				case <-s.closed:
					return
				default:
					s.ask(c, prove)
					sent.Add(1)
				}
			}
		})
	}
	testwait.Until(s.t, "the flood is under way", func() bool { return sent.Load() > int64(connections)+20 })
}

// Wrong passwords on 120 connections do not lock the right one out, wherever it comes
// from and whether or not it was used before.
func TestWrongPasswordsDoNotLockTheRightOneOut(t *testing.T) {
	var later atomic.Int64 // ns by which the clock of the API is ahead
	path := filepath.Join(t.TempDir(), "htpasswd")
	write(t, path, line(t, "ann", "secret")+line(t, "ben", "sesame")+line(t, "eve", "x"))
	b, err := NewBasicAuth(path, nil, func() time.Time { return time.Now().Add(time.Duration(later.Load())) }, rand.Reader,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s := openSite(t, b)
	same, other := s.client("127.0.0.1"), s.client("127.0.0.2")
	login := func(name, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(name, password) }
	}
	if code := s.ask(same, login("ann", "secret")); code != 200 {
		t.Fatalf("before the flood: %d", code)
	}
	later.Store(int64(2 * time.Hour)) // it is not remembered any more, and was good lately
	s.flood("127.0.0.1", 120, login("ann", "wrong"))
	expect := func(what string, c *http.Client, name, password string) {
		t.Helper()
		for n := range 20 {
			if code := s.ask(c, login(name, password)); code != 200 {
				t.Errorf("locked-out: %s, request %d: %d", what, n, code)
			}
			later.Add(int64(2 * time.Hour)) // checked each time
		}
	}
	expect("used lately, from the source of the flood", same, "ann", "secret")
	expect("never used, from another source", other, "ben", "sesame")
	if code := s.ask(same, login("eve", "x")); code != 200 {
		t.Errorf("locked-out: never used, from the source of the flood: %d", code)
	}
}

// The same with Keystone, whose clients come with another token each time.
func TestInventedTokensDoNotLockGoodOnesOut(t *testing.T) {
	e := &examiner{holders: map[string]keystone.Holder{"old": holding("admin")}, takes: 5 * time.Millisecond}
	for n := range 20 {
		e.holders[fmt.Sprint("fresh-", n)] = holding("admin")
	}
	k := keystoneAuth(t, e, nil)
	k.conf.CacheTime = 0 // each request is a question
	s := openSite(t, k)
	same, other := s.client("127.0.0.1"), s.client("127.0.0.2")
	token := func(text string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(tokenHeader, text) }
	}
	if code := s.ask(same, token("old")); code != 200 {
		t.Fatalf("before the flood: %d", code)
	}
	var invented atomic.Int64
	s.flood("127.0.0.1", 400, func(r *http.Request) { token(fmt.Sprint("invented-", invented.Add(1)))(r) })
	for n := range 20 {
		if code := s.ask(same, token("old")); code != 200 {
			t.Errorf("locked-out: known lately, from the source of the flood, request %d: %d", n, code)
		}
		if code := s.ask(other, token(fmt.Sprint("fresh-", n))); code != 200 {
			t.Errorf("locked-out: new, from another source, request %d: %d", n, code)
		}
	}
}

// A failed login takes the time of the dearest hash, whoever is named: the names of
// users could else be told by it. bcrypt takes time by 2^cost.
func TestFailedLoginsTakeTheSameTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "htpasswd")
	var text strings.Builder
	for name, cost := range map[string]int{"cheap": 4, "usual": 6, "dear": 8} {
		hash, err := bcrypt.GenerateFromPassword([]byte("secret"), cost)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%s:%s\n", name, hash)
	}
	write(t, path, text.String())
	b, err := NewBasicAuth(path, nil, time.Now, rand.Reader, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var work atomic.Int64
	compare := b.compare
	b.compare = func(hash, password []byte) error {
		cost, err := bcrypt.Cost(hash)
		if err != nil {
			t.Errorf("compared with %q: %v", hash, err)
		}
		work.Add(1 << cost)
		return compare(hash, password)
	}
	s := openSite(t, b)
	c := s.client("127.0.0.1")
	for _, name := range []string{"cheap", "usual", "dear", "stranger"} {
		work.Store(0)
		code := s.ask(c, func(r *http.Request) { r.SetBasicAuth(name, "wrong") })
		if code != 401 || work.Load() != 1<<8 {
			t.Errorf("told-by-time: %s: status %d after work of %d, want 401 after %d", name, code, work.Load(), 1<<8)
		}
	}
	if code := s.ask(c, func(r *http.Request) { r.SetBasicAuth("cheap", "secret") }); code != 200 {
		t.Errorf("the right password: %d", code)
	}
}
