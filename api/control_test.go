package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore"
)

// doing answers every command the same way.
type doing struct {
	res fsm.Result
	err error
}

func (d doing) Do(context.Context, string, fsm.Command) (fsm.Result, error) { return d.res, d.err }

// ask sends one request to a control interface whose commands end as given.
func ask(t *testing.T, d doing, method, path, body string) (*http.Response, ErrorBody) {
	t.Helper()
	c := &Control{Do: d, Logger: slog.New(slog.DiscardHandler)}
	w := httptest.NewRecorder()
	c.Handler().ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	resp := w.Result()
	var out ErrorBody
	if resp.StatusCode >= http.StatusBadRequest {
		if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || out.Error == nil {
			t.Fatalf("the body of a %d is not the shape of an error: %v", resp.StatusCode, err)
		}
	}
	return resp, out
}

// Without a quorum a write gets 503 and Retry-After, never a 4xx: a client must
// not take it for a refusal (promise 7).
func TestRefusalsHaveTheirStatus(t *testing.T) {
	for _, c := range []struct {
		name   string
		d      doing
		status int
		code   string
	}{
		{"no leader", doing{err: raftstore.ErrNoLeader}, 503, CodeNoLeader},
		{"not the leader", doing{err: fmt.Errorf("x: %w", raftstore.ErrNotLeader)}, 503, CodeNoLeader},
		{"busy", doing{err: raftstore.ErrBusy}, 503, CodeNoLeader},
		{"closing", doing{err: raftstore.ErrClosed}, 503, CodeNoLeader},
		{"too late", doing{err: errors.Join(raftstore.ErrNoLeader, context.DeadlineExceeded)}, 503, CodeNoLeader},
		{"outcome unknown", doing{err: raftstore.ErrOutcomeUnknown}, 503, CodeOutcomeUnknown},
		{"table full", doing{res: fsm.Result{Code: fsm.TableFull}}, 507, CodeTableFull},
		{"result forgotten", doing{res: fsm.Result{Code: fsm.OutcomeUnknown}}, 503, CodeOutcomeUnknown},
		{"not found", doing{res: fsm.Result{Code: fsm.NotFound, Message: "gone"}}, 404, CodeNotFound},
		{"invalid", doing{res: fsm.Result{Code: fsm.Invalid}}, 400, CodeInvalid},
		{"conflict", doing{res: fsm.Result{Code: fsm.Conflict}}, 409, CodeConflict},
		{"refused", doing{res: fsm.Result{Code: fsm.Refused}}, 409, CodeConflict},
		{"something else", doing{err: errors.New("boom")}, 500, CodeFailed},
	} {
		resp, body := ask(t, c.d, "PUT", "/v1/settings/k", `{"value":"v"}`)
		if resp.StatusCode != c.status || body.Error.Code != c.code {
			t.Errorf("%s: %d %s, want %d %s", c.name, resp.StatusCode, body.Error.Code, c.status, c.code)
		}
		if after := resp.Header.Get("Retry-After"); (after != "") != (c.status == 503) {
			t.Errorf("%s: Retry-After is %q with a %d", c.name, after, resp.StatusCode)
		}
	}
}

func TestBadBodiesAreNamed(t *testing.T) {
	for _, c := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"not JSON", `{`, 400, "not the JSON object"},
		{"unknown field", `{"valu":"v"}`, 400, `unknown field "valu"`},
		{"wrong type", `{"value":7}`, 400, "value"},
		{"two objects", `{"value":"v"}{}`, 400, "something follows"},
		{"too large", `{"value":"` + strings.Repeat("x", maxControlBody) + `"}`, 413, "more than"},
	} {
		resp, body := ask(t, doing{}, "PUT", "/v1/settings/k", c.body)
		if resp.StatusCode != c.status || !strings.Contains(body.Error.Message, c.want) {
			t.Errorf("%s: %d %q, want %d and %q", c.name, resp.StatusCode, body.Error.Message, c.status, c.want)
		}
	}
	if resp, body := ask(t, doing{}, "POST", "/v1/tokens", `{"ttl":"soon"}`); resp.StatusCode != 400 || !strings.Contains(body.Error.Message, "ttl") {
		t.Errorf("a ttl that is none: %d %q", resp.StatusCode, body.Error.Message)
	}
	if resp, _ := ask(t, doing{}, "GET", "/v1/nothing", ""); resp.StatusCode != 404 {
		t.Errorf("an unknown path: %d", resp.StatusCode)
	}
}

func TestReadyzNamesWhatIsWrong(t *testing.T) {
	var wrong error
	h := Health{Checks: func() []HealthCheck {
		return []HealthCheck{{Name: "leader", Err: wrong}, {Name: "disk", Note: "as ever"}}
	}, Metrics: prometheus.NewRegistry()}
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		h.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Code, w.Body.String()
	}
	if code, body := get("/readyz"); code != 200 || body != "ok\n" {
		t.Errorf("ready: %d %q", code, body)
	}
	wrong = errors.New("no leader is known")
	if code, body := get("/readyz?verbose"); code != 503 || !strings.Contains(body, "[-]leader: no leader is known") || !strings.Contains(body, "[+]disk ok (as ever)") {
		t.Errorf("not ready: %d %q", code, body)
	}
	if code, _ := get("/livez"); code != 200 {
		t.Errorf("livez is %d without a leader: a supervisor would restart a peer that is fine", code)
	}
}

// TestReadyzWarns: what is wrong although requests are served is said, is not called
// ok, and drains no peer.
func TestReadyzWarns(t *testing.T) {
	h := Health{Checks: func() []HealthCheck {
		return []HealthCheck{{Name: "ironic", Warning: errors.New("no peer reaches Ironic"), Note: "as ever"}, {Name: "session"}}
	}, Metrics: prometheus.NewRegistry()}
	w := httptest.NewRecorder()
	h.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/readyz?verbose", nil))
	if want := "[!]ironic: no peer reaches Ironic\n[+]session ok\n"; w.Code != 200 || w.Body.String() != want {
		t.Errorf("readyz-warns: %d %q, want %q", w.Code, w.Body.String(), want)
	}
}

// asked counts how often the status was computed.
type asked struct {
	Local
	times atomic.Int64
}

// Status implements Local.
func (a *asked) Status() Status {
	a.times.Add(1)
	return Status{}
}

// The status is computed once a second for all who ask over the network, and anew for
// each who asks on the socket.
func TestTheStatusIsSharedByAllWhoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := &asked{}
		h := (&Control{Local: local, Logger: slog.New(slog.DiscardHandler)}).Handler()
		get := func(from string) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/status", nil)
			r.RemoteAddr = from
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Errorf("status-shared: %d %s", w.Code, w.Body)
			}
		}
		for range 100 {
			get("192.0.2.1:1024")
		}
		if n := local.times.Load(); n != 1 {
			t.Errorf("status-shared: 100 requests within a second computed it %d times", n)
		}
		get("@")
		get("@")
		if n := local.times.Load(); n != 3 {
			t.Errorf("status-shared: two requests on the socket computed it %d times, want 2", n-1)
		}
		time.Sleep(time.Second) // in a bubble
		get("192.0.2.1:1024")
		if n := local.times.Load(); n != 4 {
			t.Errorf("status-shared: a second later it was computed %d times, want 4", n)
		}
	})
}
