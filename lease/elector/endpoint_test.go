package elector_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/lease/elector"
	"github.com/trivet-ha/trivet/test/testwait"
)

// saying is a source that says one thing.
type saying struct{ claim atomic.Pointer[elector.Claim] }

func (s *saying) Claim() elector.Claim { return *s.claim.Load() }

// hands is a clock that tests set. It goes on by step with each look.
type hands struct {
	mu        sync.Mutex
	now, step time.Duration
}

func (h *hands) read() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now += h.step
	return h.now
}

func (h *hands) set(now, step time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now, h.step = now, step
}

type served struct {
	*testing.T
	url    string
	source *saying
	clock  *hands
	counts [2]atomic.Int64 // of answers: nobody, somebody
}

func serve(t *testing.T) *served {
	t.Helper()
	s := &served{T: t, source: &saying{}, clock: &hands{}}
	s.source.claim.Store(&elector.Claim{})
	e := elector.NewEndpoint(
		elector.EndpointOptions{Election: "raft", Source: s.source, Now: s.clock.read, Logger: slog.New(slog.DiscardHandler),
			Answered: func(named bool) {
				n := 0
				if named {
					n = 1
				}
				s.counts[n].Add(1)
			}})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := e.Server(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Request-Id", "req-1")
			next.ServeHTTP(w, r)
		})
	})
	done := make(chan error, 1)
	go func() { done <- srv.Serve(elector.Timed(ln, s.clock.read)) }()
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := testwait.Receive(t, done, "the endpoint ends"); err != http.ErrServerClosed {
			t.Error(err)
		}
	})
	s.url = "http://" + ln.Addr().String()
	return s
}

func (s *served) ask(method, path string) (*http.Response, string, error) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(""))
	if err != nil {
		s.Fatal(err)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

// TestEveryPathAndMethod is rule 1 of docs/contract.md#elector.
func TestEveryPathAndMethod(t *testing.T) {
	s := serve(t)
	s.clock.set(time.Minute, 0)
	s.source.claim.Store(&elector.Claim{Name: "h1", Token: 77, Term: 3, Asked: time.Minute - 120*time.Millisecond,
		Until: time.Hour})
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "WHATEVER"} {
		for _, path := range []string{"", "/", "/anything", "//a/../b", "/?x=%zz", "/v1/leases"} {
			resp, body, err := s.ask(method, path)
			if err != nil {
				t.Fatalf("%s %s: %v", method, path, err)
			}
			want := `{"name":"h1"}`
			if method == "HEAD" {
				want = ""
			}
			if resp.StatusCode != http.StatusOK || body != want || resp.ContentLength != int64(len(`{"name":"h1"}`)) {
				t.Errorf("%s %s: %d %q, length %d", method, path, resp.StatusCode, body, resp.ContentLength)
			}
			for header, want := range map[string]string{"X-Leader-Term": "3", "X-Fencing-Token": "77",
				"X-Leader-Age-Ms": "120"} {
				if got := resp.Header.Get(header); got != want {
					t.Errorf("%s %s: %s: %q, want %q", method, path, header, got, want)
				}
			}
			if id := resp.Header.Get("X-Request-Id"); id != "req-1" {
				t.Errorf("%s %s: the answer names its request %q", method, path, id)
			}
		}
	}
	if s.counts[0].Load() != 0 || s.counts[1].Load() != 8*6 {
		t.Errorf("counted %d and %d", s.counts[0].Load(), s.counts[1].Load())
	}
}

func TestVerboseHasMore(t *testing.T) {
	s := serve(t)
	s.clock.set(time.Minute, 0)
	s.source.claim.Store(&elector.Claim{Name: `h"1`, Token: 1 << 60, Term: 3, Asked: time.Minute - 120*time.Millisecond,
		Until: time.Minute + 80*time.Millisecond})
	_, body, err := s.ask("GET", "/x?verbose=1")
	const want = `{"name":"h\"1","election":"raft","token":"1152921504606846976","term":3,"age_ms":120,"valid_ms":80}`
	if err != nil || body != want {
		t.Errorf("%s, %v", body, err)
	}
	s.source.claim.Store(&elector.Claim{})
	if _, body, err = s.ask("GET", "/?verbose=1"); err != nil ||
		body != `{"name":"","election":"raft","age_ms":0,"valid_ms":0}` {
		t.Errorf("%s, %v", body, err)
	}
}

// TestNameIsOverAtItsTime, whatever is remembered, and not said before its time.
func TestNameIsOverAtItsTime(t *testing.T) {
	s := serve(t)
	s.source.claim.Store(&elector.Claim{Name: "h1", Token: 1, From: time.Second, Until: 2 * time.Second})
	for at, want := range map[time.Duration]string{0: "", time.Second - 1: "", time.Second: "h1", 2*time.Second - 1: "h1",
		2 * time.Second: "", time.Hour: ""} {
		s.clock.set(at, 0)
		resp, body, err := s.ask("GET", "/")
		if err != nil {
			t.Fatalf("elector-deadline: at %v: %v", at, err)
		}
		var said struct{ Name *string }
		if err := json.Unmarshal([]byte(body), &said); err != nil || said.Name == nil || *said.Name != want {
			t.Errorf("elector-deadline: at %v %s is answered, want %q", at, body, want)
		}
		if want == "" && (resp.Header.Get("X-Fencing-Token") != "" || resp.Header.Get("X-Leader-Age-Ms") != "") {
			t.Errorf("at %v a token of nobody's is in %v", at, resp.Header)
		}
	}
}

// TestStoppedWhileItAnswers: the time was over between the look at the clock and the
// bytes. The connection breaks, which a poller takes for nobody.
func TestStoppedWhileItAnswers(t *testing.T) {
	s := serve(t)
	s.source.claim.Store(&elector.Claim{Name: "h1", Token: 1, Until: time.Second})
	s.clock.set(time.Second-time.Nanosecond-time.Millisecond, time.Millisecond)
	if _, body, err := s.ask("GET", "/"); err == nil {
		t.Errorf("elector-deadline: %q was sent after its time", body)
	}
	if _, body, err := s.ask("GET", "/"); err != nil || body != `{"name":""}` {
		t.Errorf("then %q, %v", body, err)
	}
}

// One connection carries an answer with a name, and later, when the time of that one is
// over, one without.
func TestNoNameIsSentOnAConnectionThatCarriedOne(t *testing.T) {
	s := serve(t)
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	read := bufio.NewReader(c)
	ask := func(want string) {
		t.Helper()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(read, nil)
		if err != nil {
			t.Fatalf("elector-connection: no answer: %v", err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != want {
			t.Errorf("elector-connection: %s, %v, want %s", body, err, want)
		}
	}
	s.source.claim.Store(&elector.Claim{Name: "h1", Token: 1, Until: time.Second})
	ask(`{"name":"h1"}`)
	s.clock.set(time.Minute, 0)
	ask(`{"name":""}`)
	s.source.claim.Store(&elector.Claim{Name: "h2", Token: 2, Until: time.Hour})
	ask(`{"name":"h2"}`)
}

// TestCallersAreBounded: whoever holds connections open keeps nobody out for long.
func TestCallersAreBounded(t *testing.T) {
	s := serve(t)
	var held []net.Conn
	defer func() {
		for _, c := range held {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}()
	address := strings.TrimPrefix(s.url, "http://")
	for range 300 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	for _, c := range held[:300-256] {
		if err := c.SetReadDeadline(time.Now().Add(testwait.Bound(testwait.Limit))); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Fatalf("one of the oldest of 300 connections is served: %v", err)
		}
	}
	if _, _, err := s.ask("GET", "/"); err != nil {
		t.Error(err)
	}
	last := held[len(held)-1]
	if _, err := last.Write(
		[]byte("GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 40<<10) + "\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 12)
	if _, err := io.ReadFull(last, answer); err != nil || string(answer) != "HTTP/1.1 431" {
		t.Errorf("a head of 40 KiB is answered %q, %v", answer, err)
	}
}

// What strangers ask of this process otherwise leaves places for who asks who leads.
func TestProbesHavePlacesOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		by := admission.NewController()
		source := &saying{}
		source.claim.Store(&elector.Claim{})
		e := elector.NewEndpoint(
			elector.EndpointOptions{Source: source, Now: (&hands{}).read, Admission: by, Logger: slog.New(slog.DiscardHandler)})
		fill := func(class admission.Class) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // it does not wait
			for n := range 1000 {
				_, _ = by.Admit(ctx, class, admission.Caller{Source: admission.Named(fmt.Sprint(n))})
			}
		}
		ask := func() *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			e.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			return w
		}
		began := time.Now()
		for n := range 1000 {
			if w := ask(); w.Code != http.StatusOK || time.Since(began) != 0 {
				t.Fatalf("probe-places: question %d is answered %d after %v: the others kept theirs", n, w.Code,
					time.Since(began))
			}
		}
		fill(admission.Stranger)
		fill(admission.Dear)
		began = time.Now()
		if w := ask(); w.Code != http.StatusOK || time.Since(began) != 0 {
			t.Errorf("probe-places: %d after %v", w.Code, time.Since(began))
		}
		fill(elector.Class)
		if w := ask(); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("probe-places: %d while all places are taken", w.Code)
		}
	})
}
