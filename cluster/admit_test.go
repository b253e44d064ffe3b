package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/test/testwait"
)

// journal collects the lines of a log.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) count(words string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), words)
}

// stranger posts to a port as a joiner does, without a certificate.
func (f *fixture) stranger(t *testing.T, addr string) *http2.Transport {
	t.Helper()
	tr := &http2.Transport{DialTLSContext: func(ctx context.Context, _, _ string, _ *tls.Config) (net.Conn, error) {
		return dialTLS(ctx, addr, pki.JoinerTLS(f.token, time.Now, protocolHTTP, nil))
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func joiner(name string) Joiner {
	return Joiner{Name: name, Address: name + ".example:1", Gossip: name + ".example:2", Version: fsm.Version, Wall: time.Now, Random: rand.Reader}
}

// Join requests with unknown tokens, 500 of one source: none becomes an entry of
// the log, few reach the leader, one line tells of them, and a joiner with a
// known token is admitted meanwhile.
func TestUnknownTokensCostNoEntry(t *testing.T) {
	const flood, reads = 500, 20
	f := newFixture(t)
	lines := &journal{}
	do := &doer{f: f}
	mux := http.NewServeMux()
	mux.Handle("POST "+PathJoin, NewAdmission(admission.NewController(), do, f, time.Now, rand.Reader, slog.New(slog.NewTextHandler(lines, nil)), nil))
	addr := f.serve(t, mux)
	unknown, err := pki.NewJoinToken(f.ca.Hash(), time.Now().Add(time.Hour), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	body, err := joiner("h9").request(key, unknown)
	if err != nil {
		t.Fatal(err)
	}
	tr := f.stranger(t, addr)
	statuses := make(map[int]int)
	for range flood {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+addr+PathJoin, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		statuses[resp.StatusCode]++
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if do.index != 0 {
		t.Errorf("no-entry: %d join requests with an unknown token made %d entries", flood, do.index)
	}
	if f.reads == 0 || f.reads > reads {
		t.Errorf("the leader was asked %d times, want 1 to %d", f.reads, reads)
	}
	if statuses[http.StatusTooManyRequests] < flood-reads || statuses[http.StatusUnauthorized] == 0 {
		t.Errorf("answers by status: %v", statuses)
	}
	if n := lines.count("join refused"); n != 1 {
		t.Errorf("%d lines tell of the refusals, want 1 a minute", n)
	}
	if _, err := joiner("h2").Join(t.Context(), addr, f.token); err != nil {
		t.Errorf("a joiner with a known token: %v", err)
	}
}

// A token that this peer's state lacks is looked up at the leader.
func TestTokenThatThePeerDoesNotKnowYet(t *testing.T) {
	f := newFixture(t)
	behind := f.View() // before the token is added
	fresh, err := pki.NewJoinToken(f.ca.Hash(), time.Now().Add(time.Hour), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	do := &doer{f: f}
	if _, err := do.Do(t.Context(), "", fsm.AddJoinToken{ID: fresh.ID, Hash: fresh.SecretHash(), TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+PathJoin, NewAdmission(admission.NewController(), do, lagging{f, behind}, time.Now, rand.Reader, slog.New(slog.DiscardHandler), nil))
	if _, err := joiner("h2").Join(t.Context(), f.serve(t, mux), fresh); err != nil {
		t.Error(err)
	}
}

// lagging is a state that has not applied what a linearizable read shows.
type lagging struct {
	*fixture
	behind fsm.View
}

func (l lagging) View() fsm.View { return l.behind }

// Requests without a body, twelve from one source: they hold up no other join,
// and end after the limit.
func TestUnsentBodiesHoldUpNoJoin(t *testing.T) {
	f := newFixture(t)
	addr, _ := f.unsent(t, 12, 24*time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Bound(testwait.Limit))
	defer cancel()
	if _, err := joiner("h2").Join(ctx, addr, f.token); err != nil {
		t.Errorf("body-before-slot: a join while requests lack their bodies: %v", err)
	}
	_, ended := f.unsent(t, 1, 50*time.Millisecond)
	testwait.Receive(t, ended, "the end of a request without a body") // refused, or its connection ended
}

// unsent begins joins without a body on a port that waits for it up to a limit. A
// value comes for each that ends.
func (f *fixture) unsent(t *testing.T, requests int, limit time.Duration) (addr string, ended <-chan error) {
	t.Helper()
	joins := NewAdmission(admission.NewController(), &doer{f: f}, f, time.Now, rand.Reader, slog.New(slog.DiscardHandler), nil)
	joins.body = limit
	var begun atomic.Int64
	addr = f.serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun.Add(1)
		joins.ServeHTTP(w, r)
	}))
	ends := make(chan error, requests)
	for range requests {
		never, write := io.Pipe()
		t.Cleanup(func() { _ = write.Close() }) // a pipe's close has no error
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+addr+PathJoin, never)
		if err != nil {
			t.Fatal(err)
		}
		tr := f.stranger(t, addr)
		go func() {
			resp, err := tr.RoundTrip(req)
			if err == nil {
				err = resp.Body.Close()
			}
			ends <- err
		}()
	}
	testwait.Until(t, "the requests begin", func() bool { return begun.Load() == int64(requests) })
	return addr, ends
}

// Connections of one source that never finish their handshakes give way to each
// other, not to a joiner's.
func TestStrangersGiveWayToEachOther(t *testing.T) {
	f := newFixture(t)
	mux := http.NewServeMux()
	mux.Handle("POST "+PathJoin, NewAdmission(admission.NewController(), &doer{f: f}, f, time.Now, rand.Reader, slog.New(slog.DiscardHandler), nil))
	port := f.open(t, mux)
	addr := port.Addr().String()
	var idle []net.Conn
	for range 2 * maxStrangers {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		idle = append(idle, conn)
	}
	testwait.Within(t, testwait.Limit, "the port takes all connections", func() error {
		switch n := port.ln.open.Idle(); {
		case n > maxStrangers:
			t.Fatalf("strangers-bounded: %d connections in their handshake are open, want at most %d", n, maxStrangers)
		case n < maxStrangers:
			return fmt.Errorf("it has %d", n)
		}
		return nil
	})
	// The first one was closed for the sake of later ones.
	if err := idle[0].SetReadDeadline(time.Now().Add(testwait.Bound(testwait.Limit))); err != nil {
		t.Fatal(err)
	}
	if _, err := idle[0].Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("strangers-bounded: the oldest connection stays: %v", err)
	}
	if _, err := joiner("h2").Join(t.Context(), addr, f.token); err != nil {
		t.Errorf("a join next to them: %v", err)
	}
}
