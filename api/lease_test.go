package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/lease"
	"github.com/trivet-ha/trivet/raftstore/logerr"
	"github.com/trivet-ha/trivet/test/memlog"
)

// lending is a public API that lends, over a log of one peer.
type lending struct {
	*testing.T
	log  *memlog.Log
	by   *admission.Controller
	http http.Handler
}

func newLending(t *testing.T) *lending {
	t.Helper()
	log := memlog.New(t)
	s := lease.New(lease.Options{Log: log, Do: log})
	t.Cleanup(s.Close)
	i := &Inspector{
		Service: &fake{}, Lending: s, Auth: NoAuth(), MaxLimit: 4, Logger: slog.New(slog.DiscardHandler),
		StaleFor:  func() time.Duration { return 1500 * time.Millisecond },
		Admission: admission.NewController(),
	}
	return &lending{t, log, i.Admission,
		Public(Health{Checks: func() []HealthCheck { return nil }, Metrics: prometheus.NewRegistry()}, i)}
}

// ask sends one request, holds the answer against its description, and wants its
// status.
func (l *lending) ask(want int, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	l.Helper()
	w := answer(l, l.http, method, target, body, headers...)
	if w.Code != want {
		l.Fatalf("%s %s %s: %d %s, want %d", method, target, body, w.Code, w.Body, want)
	}
	return w
}

// tokenIn reads the token of an answer.
func (l *lending) tokenIn(w *httptest.ResponseRecorder) string {
	l.Helper()
	var g struct{ Token string }
	if err := json.Unmarshal(w.Body.Bytes(), &g); err != nil || g.Token == "" {
		l.Fatalf("%s: %v", w.Body, err)
	}
	return g.Token
}

// TestLeaseContract goes through docs/contract.md#leases line by line.
func TestLeaseContract(t *testing.T) {
	l := newLending(t)
	const db, minute = "/v1/leases/db", `"ttl_ms":60000`
	l.ask(404, "GET", db, "")
	first := l.ask(201, "PUT", db, `{"holder":"one",`+minute+`,"request_id":"a","metadata":"m","unknown":1}`)
	token := l.tokenIn(first)
	if etag := first.Header().Get("ETag"); etag != `"`+token+`"` {
		t.Errorf("ETag %s of token %s", etag, token)
	}
	if again := l.ask(200, "PUT", db, `{"holder":"one",`+minute+`,"request_id":"a"}`); l.tokenIn(again) != token {
		t.Errorf("the same request got %s, then %s", first.Body, again.Body)
	}
	for _, body := range []string{`{"holder":"two",` + minute + `}`, `{"holder":"one",` + minute + `,"request_id":"b"}`} {
		var held struct {
			Holder, Token string
			Remaining     int64 `json:"remaining_ms"`
			Error         struct{ Message string }
		}
		w := l.ask(409, "PUT", db, body)
		if err := json.Unmarshal(w.Body.Bytes(), &held); err != nil || held.Holder != "one" || held.Token != token ||
			held.Remaining < 1 || held.Error.Message == "" {
			t.Errorf("%s: %v", w.Body, err)
		}
	}
	l.ask(200, "POST", db+"/renew", `{"holder":"one","token":"`+token+`"}`)
	l.ask(200, "POST", db+"/renew", `{"holder":"one","token":`+token+`}`) // a number does
	l.ask(409, "POST", db+"/renew", `{"holder":"two","token":"`+token+`"}`)
	l.ask(409, "POST", db+"/renew", `{"holder":"one","token":"1"}`)
	l.ask(404, "POST", "/v1/leases/nobody/renew", `{"holder":"one","token":"1"}`)
	taken := l.tokenIn(l.ask(201, "PUT", db, `{"holder":"one",`+minute+`,"request_id":"b","takeover":true}`))
	l.ask(409, "DELETE", db, `{"holder":"one","token":"`+token+`"}`)
	l.ask(409, "DELETE", db+"?record=1", "")
	l.ask(204, "DELETE", db, `{"holder":"one","token":"`+taken+`"}`)
	l.ask(204, "DELETE", db+"?holder=one&token="+taken, "")
	l.ask(410, "POST", db+"/renew", `{"holder":"one","token":"`+taken+`"}`)
	if free := l.ask(200, "GET", db, ""); l.tokenIn(free) != taken ||
		!strings.Contains(free.Body.String(), `"holder":""`) {
		t.Errorf("a free lease is %s", free.Body)
	}
	l.ask(200, "GET", db+"?wait=1s&after="+taken, "")
	if next := l.tokenIn(l.ask(201, "PUT", db, `{"holder":"one",`+minute+`,"request_id":"a2"}`)); next <= taken {
		t.Errorf("token %s follows %s", next, taken)
	}
	if list := l.ask(200, "GET", "/v1/leases?stale=1", "").Body.String(); !strings.Contains(list, `"name":"db"`) {
		t.Errorf("list: %s", list)
	}
	l.log.Fail(logerr.ErrNoLeader)
	for _, w := range []*httptest.ResponseRecorder{
		l.ask(503, "GET", db, ""), l.ask(503, "PUT", db, `{"holder":"x",`+minute+`}`),
		l.ask(503, "POST", db+"/renew", `{"holder":"one","token":"1"}`),
		l.ask(503, "DELETE", db, `{"holder":"one","token":"1"}`),
	} {
		if w.Header().Get("Retry-After") == "" {
			t.Error("503 without Retry-After")
		}
	}
	l.ask(200, "GET", db+"?stale=1", "")
}

func TestLeaseRequestsAreChecked(t *testing.T) {
	l := newLending(t)
	const db = "/v1/leases/db"
	for _, c := range []struct{ method, target, body, says string }{
		{"PUT", db, `{"holder":"one","ttl_ms":999}`, "ttl_ms"},
		{"PUT", db, `{"holder":"one","ttl_ms":86400001}`, "ttl_ms"},
		{"PUT", db, `{"holder":"one","ttl_ms":-9223372036854775808}`, "ttl_ms"},
		{"PUT", db, `{"holder":"one","ttl_ms":9223372036854775807}`, "ttl_ms"},
		{"PUT", db, `{"holder":"one","ttl_ms":60000,"wait_ms":30001}`, "wait_ms"},
		{"PUT", db, `{"ttl_ms":60000}`, "holder"},
		{"PUT", db, `{"holder":"` + strings.Repeat("h", 257) + `","ttl_ms":60000}`, "holder"},
		{"PUT", db, `{"holder":1}`, "body"},
		{"PUT", db, ``, "body"},
		{"PUT", "/v1/leases/DB", `{"holder":"one","ttl_ms":60000}`, "lease name"},
		{"POST", db + "/renew", `{"holder":"one","token":"x"}`, "token"},
		{"POST", db + "/renew", `{"holder":"one","token":-1}`, "token"},
		{"DELETE", db + "?holder=one&token=x", ``, "token"},
		{"GET", db + "?wait=31s", ``, "wait"},
		{"GET", db + "?wait=1s&after=x", ``, "after"},
		{"PUT", "/v1/kv/a%20b", `x`, "key"},
		{"GET", "/v1/groups/web/owner", ``, "key"},
	} {
		w := answer(t, l.http, c.method, c.target, c.body, "If-None-Match", "*")
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s %.80s: %d %s", c.method, c.target, c.body, w.Code, w.Body)
		}
	}
	l.ask(413, "PUT", db, `{"holder":"`+strings.Repeat("h", maxLeaseBody)+`"}`)
	l.ask(413, "PUT", "/v1/kv/k", strings.Repeat("v", leases.MaxValue+1), "If-None-Match", "*")
	if n := l.log.Entries(); n > 0 {
		t.Errorf("%d of them reached the log", n)
	}
}

func TestValueContract(t *testing.T) {
	l := newLending(t)
	const key = "/v1/kv/disk:1"
	token := l.tokenIn(l.ask(201, "PUT", "/v1/leases/db", `{"holder":"one","ttl_ms":60000}`))
	under := []string{"Fencing-Token", "db:" + token}
	l.ask(428, "PUT", key, "a")
	l.ask(400, "PUT", key, "a", "Fencing-Token", "db")
	l.ask(400, "PUT", key, "a", "Fencing-Token", "db:x")
	l.ask(400, "PUT", key, "a", "If-Match", `"x"`)
	l.ask(400, "PUT", key, "a", "If-Match", `"0"`)
	l.ask(400, "PUT", key, "a", "If-None-Match", `"7"`)
	l.ask(400, "PUT", key, "a", "If-None-Match", `*`, "If-Match", "1")
	l.ask(412, "PUT", key, "a", "Fencing-Token", "db:1")
	l.ask(412, "PUT", key, "a", "Fencing-Token", "other:"+token)
	first := l.ask(200, "PUT", key, "a", under...).Header().Get("ETag")
	if w := l.ask(200, "GET", key, ""); w.Body.String() != "a" || w.Header().Get("ETag") != first ||
		w.Header().Get("Fencing-Token") != "db:"+token {
		t.Errorf("%s %v", w.Body, w.Header())
	}
	second := l.ask(200, "PUT", key, "b", append(under, "If-Match", first)...).Header().Get("ETag")
	l.ask(412, "PUT", key, "c", append(under, "If-Match", first)...)
	l.ask(412, "PUT", key, "c", "If-None-Match", "*")
	l.ask(204, "DELETE", "/v1/leases/db", `{"holder":"one","token":"`+token+`"}`)
	l.ask(412, "PUT", key, "c", under...) // work that still ran after the release
	l.ask(412, "DELETE", key, "", under...)
	if w := l.ask(200, "GET", "/v1/kv?prefix=disk:", ""); !strings.Contains(w.Body.String(), `"key":"disk:1"`) {
		t.Errorf("list: %s", w.Body)
	}
	l.ask(428, "DELETE", key, "")
	l.ask(204, "DELETE", key, "", "If-Match", second)
	l.ask(404, "GET", key, "")
}

func TestGroupContract(t *testing.T) {
	l := newLending(t)
	join := func(id string) string {
		token := l.tokenIn(l.ask(201, "PUT", "/v1/leases/"+id, `{"holder":"h","ttl_ms":60000}`))
		body := `{"lease":"` + id + `","token":"` + token + `","metadata":"at ` + id + `"}`
		l.ask(204, "PUT", "/v1/groups/web/members/"+id, body)
		return body
	}
	l.ask(404, "GET", "/v1/groups/web/owner?key=k", "")
	a, tag := join("a"), ""
	join("b")
	w := l.ask(200, "GET", "/v1/groups/web", "")
	if tag = w.Header().Get("ETag"); !strings.Contains(w.Body.String(), `"metadata":"at a"`) ||
		!strings.Contains(w.Body.String(), `"id":"b"`) {
		t.Errorf("%s", w.Body)
	}
	if owner := l.ask(200, "GET", "/v1/groups/web/owner?key=k", "").Body.String(); !strings.Contains(owner, `"index":`) {
		t.Errorf("%s", owner)
	}
	l.ask(412, "PUT", "/v1/groups/web/members/c", `{"lease":"a","token":"1"}`)
	l.ask(409, "PUT", "/v1/groups/web/members/b", a)
	l.ask(204, "DELETE", "/v1/groups/web/members/a", a)
	l.ask(204, "DELETE", "/v1/groups/web/members/a", a)
	w = l.ask(200, "GET", "/v1/groups/web?wait=1s", "", "If-None-Match", tag) // it has changed already
	if strings.Contains(w.Body.String(), `"id":"a"`) || w.Header().Get("ETag") == tag {
		t.Errorf("%s", w.Body)
	}
}

// TestLeasesAreTold: the audit names who acquires and releases, with the log's entry;
// a renewal only when it is refused.
func TestLeasesAreTold(t *testing.T) {
	entries, log := memlog.New(t), new(bytes.Buffer)
	s := lease.New(lease.Options{Log: entries, Do: Traced(entries)})
	t.Cleanup(s.Close)
	i, _ := auditedAPI(&fake{}, NoAuth())
	i.Lending, i.Logger = s, slog.New(slog.NewJSONHandler(log, nil))
	l := &lending{t, entries, nil, i.Handler()}
	token := l.tokenIn(l.ask(201, "PUT", "/v1/leases/db", `{"holder":"one","ttl_ms":60000}`))
	shown := `{"holder":"one","token":"` + token + `"}`
	l.ask(200, "POST", "/v1/leases/db/renew", shown)
	l.ask(204, "DELETE", "/v1/leases/db", shown)
	l.ask(410, "POST", "/v1/leases/db/renew", shown)
	told := auditLines(t, log)
	if len(told) != 3 || told[0].Status != 201 || fmt.Sprint(told[0].Index) != token || told[1].Method != "DELETE" ||
		told[1].Index <= told[0].Index || told[2].Status != 410 {
		t.Errorf("token %s: %+v", token, told)
	}
}

// TestNoLeasesUnlessConfigured: the paths are not there, and the refusal
// names the option.
func TestNoLeasesUnlessConfigured(t *testing.T) {
	h := public(&fake{}, NoAuth())
	for _, path := range []string{"/v1/leases", "/v1/leases/db", "/v1/kv/k", "/v1/groups/web"} {
		r := httptest.NewRequest("GET", path, http.NoBody)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), LeasesOff) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/v1/leasesx", "/v1/lease", "/v2/leases/db"} {
		r := httptest.NewRequest("GET", path, http.NoBody)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusNotFound ||
			!strings.Contains(w.Body.String(), "404 Not Found: The requested URL was not found") {
			t.Errorf("%s, which is no path of leases: %d %s", path, w.Code, w.Body)
		}
	}
}
