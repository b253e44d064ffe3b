package admin

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

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// doing answers every command the same way.
type doing struct {
	res fsm.Result
	err error
}

func (d doing) Do(context.Context, string, fsm.Command) (fsm.Result, error) { return d.res, d.err }

// ask sends one request to a control interface whose commands end as given.
func ask(t *testing.T, d doing, method, path, body string) (*http.Response, api.ErrorBody) {
	t.Helper()
	c := &Control{State: State{Do: d}, Logger: slog.New(slog.DiscardHandler)}
	w := httptest.NewRecorder()
	c.Handler().ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	resp := w.Result()
	var out api.ErrorBody
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
		{"no leader", doing{err: logerr.ErrNoLeader}, 503, api.CodeNoLeader},
		{"not the leader", doing{err: fmt.Errorf("x: %w", logerr.ErrNotLeader)}, 503, api.CodeNoLeader},
		{"busy", doing{err: logerr.ErrBusy}, 503, api.CodeNoLeader},
		{"closing", doing{err: logerr.ErrClosed}, 503, api.CodeNoLeader},
		{"too late", doing{err: errors.Join(logerr.ErrNoLeader, context.DeadlineExceeded)}, 503, api.CodeNoLeader},
		{"outcome unknown", doing{err: logerr.ErrOutcomeUnknown}, 503, api.CodeOutcomeUnknown},
		{"table full", doing{res: fsm.Result{Code: fsm.TableFull}}, 507, api.CodeTableFull},
		{"result forgotten", doing{res: fsm.Result{Code: fsm.OutcomeUnknown}}, 503, api.CodeOutcomeUnknown},
		{"not found", doing{res: fsm.Result{Code: fsm.NotFound, Message: "gone"}}, 404, api.CodeNotFound},
		{"invalid", doing{res: fsm.Result{Code: fsm.Invalid}}, 400, api.CodeInvalid},
		{"conflict", doing{res: fsm.Result{Code: fsm.Conflict}}, 409, api.CodeConflict},
		{"refused", doing{res: fsm.Result{Code: fsm.Refused}}, 409, api.CodeConflict},
		{"something else", doing{err: errors.New("boom")}, 500, api.CodeFailed},
	} {
		resp, body := ask(t, c.d, "PUT", "/v1/settings/user.k", `{"value":"v"}`)
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
		resp, body := ask(t, doing{}, "PUT", "/v1/settings/user.k", c.body)
		if resp.StatusCode != c.status || !strings.Contains(body.Error.Message, c.want) {
			t.Errorf("%s: %d %q, want %d and %q", c.name, resp.StatusCode, body.Error.Message, c.status, c.want)
		}
	}
	if resp, body := ask(t, doing{}, "POST", "/v1/tokens", `{"ttl":"soon"}`); resp.StatusCode != 400 ||
		!strings.Contains(body.Error.Message, "ttl") {
		t.Errorf("a ttl that is none: %d %q", resp.StatusCode, body.Error.Message)
	}
	if resp, _ := ask(t, doing{}, "GET", "/v1/nothing", ""); resp.StatusCode != 404 {
		t.Errorf("an unknown path: %d", resp.StatusCode)
	}
}

// The status is computed once a second for all who ask over the network, and anew for
// each who asks on the socket.
func TestTheStatusIsSharedByAllWhoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var times atomic.Int64
		status := func() api.Status {
			times.Add(1)
			return api.Status{}
		}
		h := (&Control{Host: Host{Status: status}, Logger: slog.New(slog.DiscardHandler)}).Handler()
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
		if n := times.Load(); n != 1 {
			t.Errorf("status-shared: 100 requests within a second computed it %d times", n)
		}
		get("@")
		get("@")
		if n := times.Load(); n != 3 {
			t.Errorf("status-shared: two requests on the socket computed it %d times, want 2", n-1)
		}
		time.Sleep(time.Second) // in a bubble
		get("192.0.2.1:1024")
		if n := times.Load(); n != 4 {
			t.Errorf("status-shared: a second later it was computed %d times, want 4", n)
		}
	})
}
