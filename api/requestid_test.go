package api

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/internal/logs"
)

const globalRequest = "req-0b0a4a3e-5f7c-4c55-8d3b-5d0a7a8f0d11"

// TestEveryAnswerNamesItsRequest asks every interface for what there is, what
// there is not, and what it refuses.
func TestEveryAnswerNamesItsRequest(t *testing.T) {
	front := Front{
		Class: func(string, string) admission.Class { return admission.Request }, Told: func(echo.Context) bool {
			return true
		},
		Admission: admission.NewController(), Logger: slog.New(slog.DiscardHandler),
	}.Echo()
	front.GET("/v1/status", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	control := Identified(front)
	for name, h := range map[string]http.Handler{"public": public(&fake{}, testAuth(t)), "control": control} {
		for _, path := range []string{"/", "/v1", "/v1/introspection", "/v1//introspection", "/v1/rules", "/v9",
			"/nothing/at/all", "/livez", "/readyz", "/healthz", "/healthcheck", "/metrics", "/v1/status", pathOpenAPI} {
			for _, method := range []string{"GET", "HEAD", "POST", "PATCH", "OPTIONS"} {
				w := send(h, method, path, "")
				id := w.Header().Get("X-Request-Id")
				if !openStackID.MatchString(id) || w.Header().Get("X-Openstack-Request-Id") != id {
					t.Errorf("request-is-named: %s: %s %s: %d, %q and %q", name, method, path, w.Code, id,
						w.Header().Get("X-Openstack-Request-Id"))
				}
			}
		}
	}
}

func TestRequestIDsAreValidated(t *testing.T) {
	for _, c := range []struct{ own, global, wantOwn, wantGlobal string }{
		{"mine-1", "", "mine-1", ""},
		{"", globalRequest, "", globalRequest},
		{"mine-1", globalRequest, "mine-1", globalRequest},
		{strings.Repeat("x", 128), "", strings.Repeat("x", 128), ""},
		{strings.Repeat("x", 129), "", "", ""},
		{"a b", "req-1", "", ""},
		{"é", strings.ToUpper(globalRequest), "", ""},
		{"a\x7fb", globalRequest + "0", "", ""},
		{"", globalRequest + "\n", "", ""},
	} {
		var seen logs.Request
		h := Identified(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = logs.RequestOf(r.Context()) }))
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header[requestIDHeader], r.Header[openStackIDHeader] = []string{c.own}, []string{c.global}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		ok := seen.ID == c.wantOwn || c.wantOwn == "" && openStackID.MatchString(seen.ID)
		if !ok || seen.Global != c.wantGlobal || w.Header().Get("X-Request-Id") != seen.ID ||
			w.Header().Get("X-Openstack-Request-Id") != seen.ID {
			t.Errorf("%q, %q: named %+v, answered %v", c.own, c.global, seen, w.Header())
		}
	}
}

// An outer handler, as that of operators' certificates, names a request once.
func TestARequestHasOneName(t *testing.T) {
	var seen logs.Request
	inner := Identified(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen = logs.RequestOf(r.Context())
	}))
	w := send(Identified(inner), "GET", "/", "")
	if got := w.Header().Values("X-Request-Id"); len(got) != 1 || got[0] != seen.ID || seen.ID == "" {
		t.Errorf("answered %v, the handler saw %+v", got, seen)
	}
}

// TestLinesOfARequestCarryItsID demands the answer's ID in the line about a
// fault and in that of the audit.
func TestLinesOfARequestCarryItsID(t *testing.T) {
	log := new(bytes.Buffer)
	i := &Inspector{
		Service: &fake{err: io.ErrUnexpectedEOF}, Auth: NoAuth(),
		Logger:   slog.New(logs.Requests(slog.NewJSONHandler(log, nil))),
		StaleFor: func() time.Duration { return 0 },
	}
	w := answer(t, i.Handler(), "POST", statusPath, "", "X-Openstack-Request-Id", globalRequest)
	lines := 0
	for d := json.NewDecoder(log); d.More(); lines++ {
		var l struct {
			Msg     string
			Request string `json:"request_id"`
			Global  string `json:"global_request_id"`
		}
		if err := d.Decode(&l); err != nil {
			t.Fatal(err)
		}
		if l.Request == "" || l.Request != w.Header().Get("X-Request-Id") || l.Global != globalRequest {
			t.Errorf("request-in-the-log: %q has %q and %q, the answer %v", l.Msg, l.Request, l.Global, w.Header())
		}
	}
	if w.Code != http.StatusInternalServerError || lines != 2 {
		t.Errorf("%d, %d lines", w.Code, lines)
	}
}
