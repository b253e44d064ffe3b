package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

const statusPath = "/v1/introspection/" + node

// begun is a moment with a fraction, in Unix ms.
var begun = time.Date(2026, 11, 20, 20, 35, 26, 405_000_000, time.UTC).UnixMilli()

func TestStatusObject(t *testing.T) {
	const links = `"links":[{"href":"http://example.com/v1/introspection/` + node + `","rel":"self"}]`
	for _, c := range []struct {
		name string
		rec  introspection.Record
		want string
	}{
		{"waiting", introspection.Record{Node: node, State: introspection.NodeWaiting,
			Times: introspection.Times{StartedMillis: begun}},
			`{"error":null,"finished":false,"finished_at":null,` + links +
				`,"started_at":"2026-11-20T20:35:26.405000","state":"waiting","uuid":"` + node + `"}`},
		{"finished, no fraction",
			introspection.Record{Node: node, State: introspection.NodeFinished,
				Times: introspection.Times{StartedMillis: begun - 405, FinishedMillis: begun + 60_000}},
			`{"error":null,"finished":true,"finished_at":"2026-11-20T20:36:26.405000",` + links +
				`,"started_at":"2026-11-20T20:35:26","state":"finished","uuid":"` + node + `"}`},
		{"reapplying stays finished",
			introspection.Record{Node: node, State: introspection.NodeReapplying,
				Times: introspection.Times{StartedMillis: begun, FinishedMillis: begun}},
			`{"error":null,"finished":true,"finished_at":"2026-11-20T20:35:26.405000",` + links +
				`,"started_at":"2026-11-20T20:35:26.405000","state":"reapplying","uuid":"` + node + `"}`},
		{"error with all that JSON escapes",
			introspection.Record{Node: node, State: introspection.NodeError,
				Times: introspection.Times{StartedMillis: begun, FinishedMillis: begun}, Error: "a \"b\"\\ <é>\n"},
			`{"error":"a \"b\"\\ <é>\n","finished":true,"finished_at":"2026-11-20T20:35:26.405000",` + links +
				`,"started_at":"2026-11-20T20:35:26.405000","state":"error","uuid":"` + node + `"}`},
	} {
		h := public(&fake{records: []introspection.Record{c.rec}}, NoAuth())
		w := answer(t, h, "GET", statusPath, "")
		if w.Code != 200 || w.Body.String() != c.want+"\n" {
			t.Errorf("%s:\n%d %s\nwant\n%s", c.name, w.Code, w.Body, c.want)
		}
		if w := answer(t, h, "GET", "/v1/introspection", ""); w.Body.String() != `{"introspection":[`+c.want+"]}\n" {
			t.Errorf("%s in a list: %s", c.name, w.Body)
		}
	}
}

func TestBodiesAndHeaders(t *testing.T) {
	f := &fake{records: []introspection.Record{underWay()}, data: []byte(`{"z":1,"a":{"b":[]}}`)}
	h := public(f, NoAuth())
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/", "", 200,
			`{"versions":[{"id":"1.18","links":[{"href":"http://example.com/v1","rel":"self"}],"status":"CURRENT"}]}` + "\n"},
		{"GET", "/v1/", "", 200,
			`{"resources":[{"links":[{"href":"http://example.com/v1/continue","rel":"self"}],"name":"continue"},` +
				`{"links":[{"href":"http://example.com/v1/introspection","rel":"self"}],"name":"introspection"},{"links":[{"href":"http://example.com/v1/rules","rel":"self"}],"name":"rules"}]}` +
				"\n"},
		{"POST", statusPath, "ignored", 202, "{}\n"},
		{"POST", statusPath + "/", "", 202, "{}\n"},
		{"POST", statusPath + "/abort", "", 202, "{}\n"},
		{"POST", "/v1/continue", `{"inventory":{}}`, 200, `{"uuid":"` + node + `"}` + "\n"},
		{"GET", statusPath + "/data", "", 200, `{"z":1,"a":{"b":[]}}`},
		{"GET", statusPath + "/data/unprocessed/", "", 200, `{"raw":true}`},
		{"GET", "/v1/introspection/a%2Fb", "", 404, errorBody((&Inspector{}).lost("/a/b"))},
		{"GET", "/v1/introspection/a/b/c", "", 404, errorBody((&Inspector{}).lost("/a/b"))},
		{"GET", "/v2", "", 404, errorBody("Version v2 not found.")},
		{"GET", "/v2/introspection", "", 404, errorBody((&Inspector{}).lost("/a/b"))},
	} {
		w := answer(t, h, c.method, c.path, c.body)
		if w.Code != c.status || w.Body.String() != c.want {
			t.Errorf("%s %s: %d %q, want %d %q", c.method, c.path, w.Code, w.Body, c.status, c.want)
		}
		hd := w.Header()
		if hd.Get("Content-Type") != "application/json" || hd.Get("Content-Length") != fmt.Sprint(len(c.want)) {
			t.Errorf("%s %s: %v", c.method, c.path, hd)
		}
		for name, want := range map[string]string{"X-OpenStack-Ironic-Inspector-API-Minimum-Version": "1.0",
			"X-OpenStack-Ironic-Inspector-API-Maximum-Version": "1.18"} {
			if got := hd[name]; len(got) != 1 || got[0] != want { // to the letter
				t.Errorf("%s %s: %s is %q", c.method, c.path, name, got)
			}
		}
	}
	if len(f.bodies) != 1 || f.bodies[0] != `{"inventory":{}}` {
		t.Errorf("the service was given %q", f.bodies)
	}
}

func TestMethods(t *testing.T) {
	h := public(&fake{records: []introspection.Record{underWay()}, data: []byte("{}")}, NoAuth())
	for path, allow := range map[string]string{
		"/": "GET, HEAD, OPTIONS", "/v1": "GET, HEAD, OPTIONS", "/v1/continue": "OPTIONS, POST",
		"/v1/introspection": "GET, HEAD, OPTIONS", statusPath: "GET, HEAD, OPTIONS, POST",
		statusPath + "/abort": "OPTIONS, POST", statusPath + "/data": "GET, HEAD, OPTIONS",
		statusPath + "/data/unprocessed": "GET, HEAD, OPTIONS, POST",
	} {
		w := answer(t, h, "OPTIONS", path, "")
		if w.Code != 200 || w.Body.Len() != 0 || sorted(w.Header().Get("Allow")) != allow {
			t.Errorf("OPTIONS %s: %d %q, Allow %q", path, w.Code, w.Body, w.Header().Get("Allow"))
		}
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
			w := answer(t, h, method, path, "")
			if allowed := strings.Contains(allow, method); allowed != (w.Code < 300) {
				t.Errorf("%s %s: %d", method, path, w.Code)
			} else if !allowed && (w.Code != 405 || sorted(w.Header().Get("Allow")) != allow ||
				!strings.HasPrefix(w.Body.String(), `{"error":{"message":"405 `)) {
				t.Errorf("%s %s: %d %s, Allow %q", method, path, w.Code, w.Body, w.Header().Get("Allow"))
			}
		}
	}
}

func TestEmptySegmentsRedirect(t *testing.T) {
	h := public(&fake{}, NoAuth())
	for path, want := range map[string]string{
		"//v1//introspection///x%20y?limit=1": "http://example.com/v1/introspection/x%20y?limit=1",
		"//evil.example/":                     "http://example.com/evil.example/",
	} {
		r := httptest.NewRequest("POST", "http://example.com", nil)
		r.URL.Path, r.URL.RawQuery, _ = strings.Cut(strings.ReplaceAll(path, "%20", " "), "?")
		w := httptest.NewRecorder()
		checked(t, h).ServeHTTP(w, r)
		if w.Code != 308 || w.Header().Get("Location") != want {
			t.Errorf("%s: %d to %q, want %q", path, w.Code, w.Header().Get("Location"), want)
		}
	}
}

func TestReadings(t *testing.T) {
	f := &fake{records: []introspection.Record{underWay()}, data: []byte("{}")}
	h := public(f, NoAuth())
	for _, path := range []string{statusPath, "/v1/introspection", statusPath + "/data",
		statusPath + "/data/unprocessed"} {
		for query, want := range map[string]inspector.Reading{"": inspector.Linearizable, "?stale=0": inspector.Linearizable,
			"?stale=1": inspector.Stale} {
			f.reading = nil
			w := answer(t, h, "GET", path+query, "")
			header := ""
			if want == inspector.Stale {
				header = "1500"
			}
			if w.Code != 200 || !reflect.DeepEqual(f.reading, []inspector.Reading{want}) ||
				w.Header().Get("X-Stale-For") != header {
				t.Errorf("%s%s: %d, read as %v, X-Stale-For %q", path, query, w.Code, f.reading, w.Header().Get("X-Stale-For"))
			}
		}
	}
}

// A stale answer says how old it may be, rounded up, and nothing where nothing bounds it.
func TestAgeOfAStaleAnswer(t *testing.T) {
	for age, want := range map[time.Duration]string{0: "0", time.Microsecond: "1", 1500 * time.Millisecond: "1500",
		-1: ""} {
		i := &Inspector{StaleFor: func() time.Duration { return age }}
		w := httptest.NewRecorder()
		i.reading(echo.New().NewContext(httptest.NewRequest("GET", "/?stale=1", nil), w))
		if got := w.Header().Get("X-Stale-For"); got != want {
			t.Errorf("age %v: X-Stale-For %q, want %q", age, got, want)
		}
	}
}

// What the service says becomes an answer; lack of a quorum is never a 4xx, and
// what nobody refused tells nothing (promise 7, docs/contract.md#errors).
func TestErrorsOfTheService(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		status int
		want   string // "": the error's own text
	}{
		{"refusal", &inspector.Refusal{Status: 409, Message: "Node is locked, please, retry later"}, 409, ""},
		{"wrapped refusal", fmt.Errorf("x: %w", &inspector.Refusal{Status: 400, Message: "no"}), 400, "no"},
		{"refusal with 500", &inspector.Refusal{Status: 500,
			Message: "Unexpected exception KeyError during processing: 'cpu'"}, 500, ""},
		{"refusal with 503", &inspector.Refusal{Status: 503, Message: "Ironic cannot be reached"}, 503, ""},
		{"transition", &fsm.Error{Code: fsm.IllegalTransition, Message: "Can not transition"}, 400, "Can not transition"},
		{"not found", &fsm.Error{Code: fsm.NotFound, Message: "gone"}, 404, "gone"},
		{"queue full", &fsm.Error{Code: fsm.QueueFull, Message: "full"}, 503, "full"},
		{"no leader", logerr.ErrNoLeader, 503, ""},
		{"not the leader", logerr.ErrNotLeader, 503, ""},
		{"busy", logerr.ErrBusy, 503, ""},
		{"closing", logerr.ErrClosed, 503, ""},
		{"muted", logerr.ErrMuted, 503, ""},
		{"unknown", fmt.Errorf("x: %w", logerr.ErrOutcomeUnknown), 503, ""},
		{"no session", cluster.ErrNoSession, 503, ""},
		{"too late", context.DeadlineExceeded, 503, ""},
		{"gone away", context.Canceled, 503, ""},
		{"fault", errors.New("open /secret/path: no"), 500, "Internal server error"},
	} {
		h := public(&fake{err: c.err}, NoAuth())
		want := c.want
		if want == "" {
			want = c.err.Error()
		}
		for _, call := range []string{"GET " + statusPath, "POST " + statusPath, "POST " + statusPath + "/abort",
			"GET /v1/introspection", "GET " + statusPath + "/data", "POST /v1/continue"} {
			method, path, _ := strings.Cut(call, " ")
			if c.status == http.StatusConflict && method == "GET" {
				continue // reading waits for nobody
			}
			w := answer(t, h, method, path, "{}")
			if w.Code != c.status || w.Body.String() != errorBody(want) {
				t.Errorf("%s, %s: %d %s, want %d %s", c.name, call, w.Code, w.Body, c.status, errorBody(want))
			}
			if (w.Header().Get("Retry-After") != "") != (c.status == 503) {
				t.Errorf("%s, %s: Retry-After is %q with a %d", c.name, call, w.Header().Get("Retry-After"), w.Code)
			}
		}
	}
}

func TestAPanicEndsOneRequest(t *testing.T) {
	var logged strings.Builder
	f := &fake{hook: func() { panic("boom") }}
	i := &Inspector{Service: f, Auth: NoAuth(), MaxLimit: 4, Logger: slog.New(slog.NewTextHandler(&logged, nil))}
	h := i.Handler()
	w := answer(t, h, "GET", statusPath, "")
	if w.Code != 500 || w.Body.String() != errorBody("Internal server error") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if s := logged.String(); !strings.Contains(s, "boom") || !strings.Contains(s, "fake_test.go") {
		t.Errorf("the log does not say what happened and where: %s", s)
	}
	if w := answer(t, h, "GET", "/v1", ""); w.Code != 200 {
		t.Errorf("the next request: %d", w.Code)
	}
	f.hook = func() { panic(http.ErrAbortHandler) }
	defer func() {
		if v := recover(); v != http.ErrAbortHandler {
			t.Errorf("a wish to cut the connection came out as %v", v)
		}
	}()
	answer(t, h, "GET", statusPath, "")
}

// Forgetting Auth must not open the API.
func TestWithoutAuthNothingIsServed(t *testing.T) {
	f := &fake{}
	if w := answer(t, public(f, nil), "POST", statusPath, ""); w.Code != 500 || len(f.started) != 0 {
		t.Errorf("%d, %d starts", w.Code, len(f.started))
	}
}

func TestPublicServesHealthBesideTheAPI(t *testing.T) {
	h := public(&fake{}, NoAuth())
	for path, want := range map[string]string{"/livez": "ok\n", "/readyz": "ok\n", "/healthz": "ok\n", "/healthcheck": "",
		"/healthcheck/": ""} {
		for _, method := range []string{"GET", "HEAD"} {
			w := answer(t, h, method, path, "")
			if w.Code != 200 || method == "GET" && w.Body.String() != want {
				t.Errorf("%s %s: %d %q", method, path, w.Code, w.Body)
			}
			for name := range w.Header() {
				if strings.Contains(strings.ToLower(name), "inspector-api") { // docs/contract.md#versions
					t.Errorf("%s %s: header %s", method, path, name)
				}
			}
		}
	}
	off := &Inspector{Service: &fake{}, Auth: NoAuth(), MaxLimit: 1, Logger: slog.New(slog.DiscardHandler)}
	w := httptest.NewRecorder() // not as the document says, which has it on
	if Public(Health{}, off).ServeHTTP(w, httptest.NewRequest("GET", "/healthcheck", nil)); w.Code != 404 ||
		w.Body.String() != errorBody("Version healthcheck not found.") {
		t.Errorf("/healthcheck where it is off: %d %q", w.Code, w.Body)
	}
	sick := Health{Checks: func() []HealthCheck { return []HealthCheck{{Name: "leader", Err: errors.New("none")}} }}
	if w := answer(t, sick.Handler(), "GET", "/healthcheck", ""); w.Code != 503 || w.Body.Len() != 0 {
		t.Errorf("/healthcheck without a leader: %d %q", w.Code, w.Body)
	}
}

// TestFullTableKeepsTheOriginalsStatus: docs/contract.md#errors knows no 507, and a ramdisk sends
// again what got 503.
func TestFullTableKeepsTheOriginalsStatus(t *testing.T) {
	h := public(&fake{err: &fsm.Error{Code: fsm.TableFull, Message: "50000 nodes are recorded"}}, NoAuth())
	for path, body := range map[string]string{
		statusPath: "", statusPath + "/abort": "", statusPath + "/data/unprocessed": "", "/v1/continue": `{"inventory":{}}`,
	} {
		w := answer(t, h, "POST", path, body)
		if want := errorBody("50000 nodes are recorded"); w.Code != 503 || w.Body.String() != want ||
			w.Header().Get("Retry-After") == "" {
			t.Errorf("POST %s: %d %q, want 503 %q", path, w.Code, w.Body, want)
		}
	}
}
