package api

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/internal/keystone"
)

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
	if code, body := get("/readyz?verbose"); code != 503 || !strings.Contains(body, "[-]leader: no leader is known") ||
		!strings.Contains(body, "[+]disk ok (as ever)") {
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
		return []HealthCheck{{Name: "ironic", Warning: errors.New("no peer reaches Ironic"), Note: "as ever"},
			{Name: "session"}}
	}, Metrics: prometheus.NewRegistry()}
	w := httptest.NewRecorder()
	h.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/readyz?verbose", nil))
	if want := "[!]ironic: no peer reaches Ironic\n[+]session ok\n"; w.Code != 200 || w.Body.String() != want {
		t.Errorf("readyz-warns: %d %q, want %q", w.Code, w.Body.String(), want)
	}
}

func (e *examiner) Check(ctx context.Context) error {
	if _, err := e.Examine(ctx, "own"); !errors.Is(err, keystone.ErrUnknownToken) {
		return err
	}
	return nil
}

// TestCheckTellsAway: no caller has come, and operators ask.
func TestCheckTellsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down, e := errors.New("no route to host"), &examiner{}
		k := keystoneAuth(t, e, nil)
		e.set(func() { e.err = down })
		hasty, cancel := context.WithCancel(t.Context())
		cancel()
		if err := k.Check(hasty); err == nil || k.Away() != nil {
			t.Errorf("check-away: given up: %v, away: %v", err, k.Away())
		}
		if err := k.Check(t.Context()); !errors.Is(err, down) || !errors.Is(k.Away(), down) {
			t.Errorf("check-away: %v, away: %v", err, k.Away())
		}
		e.set(func() { e.err = nil })
		if err := k.Check(t.Context()); err != nil || k.Away() != nil {
			t.Errorf("check-away: it answers: %v, away: %v", err, k.Away())
		}
		e.takes = time.Hour
		late, cancel := context.WithTimeout(t.Context(), k.conf.Timeout/2)
		defer cancel()
		if err := k.Check(late); err == nil || k.Away() == nil {
			t.Errorf("check-away: no answer in time: %v, away: %v", err, k.Away())
		}
	})
}
