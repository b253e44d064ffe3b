package api

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
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
