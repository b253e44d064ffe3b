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
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/raftstore/logerr"
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
		return dialTLS(ctx, HostNetwork{}, addr, pki.JoinerTLS(f.token, time.Now, protocolHTTP))
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func joiner(name string) Joiner {
	return Joiner{Name: name, Address: name + ".example:1", Gossip: name + ".example:2", Version: fsm.Version,
		Wall: time.Now, Random: rand.Reader}
}

// recorded records an answer, and takes the deadline of a body that is there already.
type recorded struct{ *httptest.ResponseRecorder }

// SetReadDeadline is for http.ResponseController.
func (recorded) SetReadDeadline(time.Time) error { return nil }

// asks hands joins the request of a joiner from an address, with no connection between.
func asks(t *testing.T, joins http.Handler, from string, who Joiner, token pki.JoinToken) (status int, said string) {
	t.Helper()
	return asksFor(t, PathJoin, joins, from, who, token)
}

// asksFor is asks at another path.
func asksFor(t *testing.T, path string, joins http.Handler, from string, who Joiner,
	token pki.JoinToken) (status int, said string) {
	t.Helper()
	key, err := pki.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	body, err := who.request(key, token)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
	r.RemoteAddr = from
	w := recorded{httptest.NewRecorder()}
	joins.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// Join requests with unknown tokens, 500 of one source at once: none becomes an entry
// of the log, as many reach the leader as a source may ask at once, one line tells of
// them, and a joiner with a known token is admitted meanwhile, from the same source.
func TestUnknownTokensCostNoEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // how long the machine takes is nothing
		const flood, from = 500, "192.0.2.1:1024"
		f := newFixture(t)
		lines := &journal{}
		do := &doer{f: f}
		joins := NewAdmission(admission.NewController(), do, f, time.Now, rand.Reader,
			slog.New(slog.NewTextHandler(lines, nil)), nil)
		unknown, err := pki.NewJoinToken(f.ca.Hash(), time.Now().Add(time.Hour), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		statuses := make(map[int]int)
		for n := range flood {
			status, _ := asks(t, joins, from, joiner(fmt.Sprintf("h%d", 9+n%2)), unknown)
			statuses[status]++
		}
		if do.index != 0 {
			t.Errorf("no-entry: %d join requests with an unknown token made %d entries", flood, do.index)
		}
		if f.reads != unknownBurst {
			t.Errorf("unknown-pace: the leader was asked %d times, want %d", f.reads, unknownBurst)
		}
		if statuses[http.StatusTooManyRequests] != flood-unknownBurst || statuses[http.StatusUnauthorized] != unknownBurst {
			t.Errorf("unknown-pace: answers by status: %v", statuses)
		}
		if n := lines.count("join refused"); n != 1 {
			t.Errorf("%d lines tell of the refusals, want 1 a minute", n)
		}
		if status, said := asks(t, joins, from, joiner("h2"), f.token); status != http.StatusOK {
			t.Errorf("a joiner with a known token: %d %s", status, said)
		}
		time.Sleep(time.Second / unknownPerSource) // in a bubble
		if status, _ := asks(t, joins, from, joiner("h9"), unknown); status != http.StatusUnauthorized ||
			f.reads != unknownBurst+1 {
			t.Errorf("unknown-pace: a second later: %d, and the leader was asked %d times", status, f.reads)
		}
	})
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
	if _, err := do.Do(t.Context(), "",
		membership.AddJoinToken{ID: fresh.ID, Hash: fresh.SecretHash(), TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+PathJoin,
		NewAdmission(admission.NewController(), do, lagging{f, behind}, time.Now, rand.Reader, slog.New(slog.DiscardHandler),
			nil))
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
	joins := NewAdmission(admission.NewController(), &doer{f: f}, f, time.Now, rand.Reader, slog.New(slog.DiscardHandler),
		nil)
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
	mux.Handle("POST "+PathJoin,
		NewAdmission(admission.NewController(), &doer{f: f}, f, time.Now, rand.Reader, slog.New(slog.DiscardHandler), nil))
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
		switch n := port.ln.open[false].Idle(); {
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

// TestSettingsMakeNoMember: a joiner that only asks what it would be given is no member by that,
// needs the token's secret, and learns from an older peer that it does not answer.
func TestSettingsMakeNoMember(t *testing.T) {
	f := newFixture(t)
	given := Shared{Settings: map[string]string{"raft.timing": "slow"}}
	joins := NewAdmission(admission.NewController(), &doer{f: f}, f, time.Now, rand.Reader, slog.New(slog.DiscardHandler),
		func() Shared { return given })
	routes := NewRoutes(nil, admission.NewController())
	routes.Joiners(PathJoin, joins)
	older := f.serve(t, routes)
	routes = NewRoutes(nil, admission.NewController())
	routes.Joiners(PathJoin, joins)
	routes.Joiners(PathSettings, joins)
	addr := f.serve(t, routes)
	before := len(f.state.View().Members())
	s, known, err := joiner("h2").Settings(t.Context(), addr, f.token)
	if err != nil || !known || s.Settings["raft.timing"] != "slow" {
		t.Errorf("settings before the join: %+v, %t, %v", s, known, err)
	}
	if n := len(f.state.View().Members()); n != before {
		t.Errorf("settings-make-no-member: %d members, before %d", n, before)
	}
	unknown, err := pki.NewJoinToken(f.ca.Hash(), time.Now().Add(time.Hour), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var refused *JoinError
	if s, _, err := joiner("h2").Settings(t.Context(), addr, unknown); !errors.As(err, &refused) ||
		refused.Status != http.StatusUnauthorized || s.Settings != nil {
		t.Errorf("settings-need-the-token: %+v, %v", s, err)
	}
	if _, known, err := joiner("h2").Settings(t.Context(), older, f.token); err != nil || known {
		t.Errorf("an older peer: %t, %v", known, err)
	}
	if _, err := joiner("h2").Join(t.Context(), older, f.token); err != nil {
		t.Errorf("the join at an older peer: %v", err)
	}
}

// leaderless is the state of a peer that hears of no leader until then.
type leaderless struct {
	*fixture
	until time.Time
}

func (l leaderless) Read(ctx context.Context) (fsm.View, error) {
	if time.Now().Before(l.until) {
		return fsm.View{}, logerr.ErrNoLeader
	}
	return l.fixture.Read(ctx)
}

// A joiner that asks what it would be given sets the data of its earlier peer aside on the
// answer. A peer that has no leader gives none, although its own state would admit; one that
// has started a moment ago, as where 'trivet init' says what to run next, has one soon.
func TestSettingsNeedALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		for late, want := range map[time.Duration]int{
			time.Hour: http.StatusServiceUnavailable, leaderHold / 2: http.StatusOK,
		} {
			began := time.Now()
			until := began.Add(late)
			joins := NewAdmission(admission.NewController(), &doer{f: f}, leaderless{f, until}, time.Now, rand.Reader,
				slog.New(slog.DiscardHandler), nil)
			if status, said := asksFor(t, PathSettings, joins, "192.0.2.1:1024", joiner("h2"), f.token); status != want {
				t.Errorf("settings-need-a-leader: %d %s, want %d", status, said, want)
			}
			if took := time.Since(began); took > leaderHold {
				t.Errorf("settings-need-a-leader: the answer took %v", took)
			}
		}
	})
}

// A host that asks as v0.2.0 did, without a token, is told how to join.
func TestRejoinIsRefused(t *testing.T) {
	w := httptest.NewRecorder()
	RefuseRejoin(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, PathRejoin, nil))
	if said := w.Body.String(); w.Code != http.StatusGone ||
		!strings.Contains(said, "'trivet join HOST --replace --token-file FILE'") {
		t.Errorf("rejoin-refused: %d %s", w.Code, said)
	}
}
