package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/api/events"
	"github.com/trivet-ha/trivet/lease"
	"github.com/trivet-ha/trivet/test/memlog"
)

// described is the document that answers are held against.
var described = sync.OnceValues(func() (*openapi3.T, error) {
	text, err := openAPIDocument()
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(openapi3.NewLoader().Context)
})

func document(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := described()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// checked serves h and holds each answer against the document: status, headers
// and body. It fails the test at the first that does not fit.
func checked(t testing.TB, h http.Handler) http.Handler {
	t.Helper()
	doc := document(t)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := r.Clone(r.Context()) // before a router changes it
		rec := &watching{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(rec, r)
		if err := fits(doc, asked, rec.status, w.Header(), rec.body.Bytes()); err != nil {
			t.Errorf("%s %s: %v\nis not what %s says", asked.Method, asked.URL, err, pathOpenAPI)
		}
	})
}

// watching remembers an answer as it passes.
type watching struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (w *watching) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *watching) Write(b []byte) (int, error) {
	w.body.Write(b)
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *watching) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// fits holds one answer against the document.
func fits(doc *openapi3.T, r *http.Request, status int, header http.Header, body []byte) error {
	header = canonical(header)
	path, parameters := find(doc, r.URL.Path)
	method := r.Method
	if method == http.MethodHead {
		method, body = http.MethodGet, nil
	}
	item := doc.Paths.Value(path)
	var operation *openapi3.Operation
	if item != nil {
		operation = item.Operations()[method]
	}
	if operation == nil || status == http.StatusPermanentRedirect {
		return fitsNothing(doc, r.Method, status, header, body)
	}
	response := operation.Responses.Status(status)
	if response == nil {
		return fmt.Errorf("status %d is not described", status)
	}
	if err := allDescribed(header, response.Value); err != nil {
		return err
	}
	if len(response.Value.Content) == 0 && len(body) > 0 {
		return fmt.Errorf("status %d has a body: %q", status, body)
	}
	return openapi3filter.ValidateResponse(r.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: r, PathParams: parameters,
			Route: &routers.Route{Spec: doc, Path: path, PathItem: item, Method: method, Operation: operation},
		},
		Status: status, Header: header, Body: io.NopCloser(bytes.NewReader(body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, ExcludeResponseBody: r.Method == http.MethodHead},
	})
}

// fitsNothing is for what no operation describes: OPTIONS, and what there is
// not. The document's introduction says what comes of that.
func fitsNothing(doc *openapi3.T, method string, status int, header http.Header, body []byte) error {
	for _, name := range []string{"Minimum", "Maximum"} {
		if header.Get("X-Openstack-Ironic-Inspector-Api-"+name+"-Version") == "" {
			return fmt.Errorf("it does not tell the versions: %v", header)
		}
	}
	if method == http.MethodOptions && status == http.StatusOK {
		if header.Get("Allow") == "" || len(body) > 0 {
			return fmt.Errorf("OPTIONS: %v, %q", header, body)
		}
		return nil
	}
	if status < http.StatusMultipleChoices {
		return fmt.Errorf("status %d of what is not described", status)
	}
	if method == http.MethodHead {
		return nil
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return fmt.Errorf("%q: %w", body, err)
	}
	return doc.Components.Schemas["Error"].Value.VisitJSON(v, openapi3.EnableJSONSchema2020())
}

// canonical spells the names as net/http does: the versions' are sent as the
// original spells them.
func canonical(header http.Header) http.Header {
	out := make(http.Header)
	for name, values := range header {
		out[http.CanonicalHeaderKey(name)] = values
	}
	return out
}

// allDescribed refuses headers of our own that the document does not name.
func allDescribed(header http.Header, response *openapi3.Response) error {
	for name := range header {
		known := name == "Retry-After" && response.Headers["Retry-After"] != nil ||
			!strings.HasPrefix(name, "X-") && name != "Retry-After"
		for own := range response.Headers {
			known = known || http.CanonicalHeaderKey(own) == name
		}
		if !known {
			return fmt.Errorf("the header %s is not described", name)
		}
	}
	return nil
}

// find returns the path of the document that a request's leads to.
func find(doc *openapi3.T, path string) (string, map[string]string) {
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	for _, template := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		want, got := strings.Split(template, "/"), strings.Split(path, "/")
		parameters := make(map[string]string)
		if len(want) == len(got) && slices.EqualFunc(want, got, func(want, got string) bool {
			if strings.HasPrefix(want, "{") && got != "" {
				parameters[strings.Trim(want, "{}")] = got
				return true
			}
			return want == got
		}) {
			return template, parameters
		}
	}
	return "", nil
}

// parameterPattern is how echo writes what a document writes in braces.
var parameterPattern = regexp.MustCompile(`:([a-z]+)`)

// TestEveryRouteIsDescribed, and nothing else is: paths, methods, and who may.
func TestEveryRouteIsDescribed(t *testing.T) {
	doc := document(t)
	served := make(map[string]string) // "GET /path" → role
	for _, path := range []string{pathLive, pathReady, pathHealth, pathCheck, pathMetrics} {
		served["GET "+path] = "none"
	}
	for _, r := range (&Inspector{Inband: &fake{}, Lending: &lease.Service{},
		Nodes:        Nodes{fakeNames{}, fakeHardware{}, fakeBoots{}, fakeWaits{}},
		ClusterReads: ClusterReads{&events.Hub{}, func() Status { return Status{} }}}).resources() {
		path := parameterPattern.ReplaceAllString(r.path, "{$1}")
		read, change := "admin", "admin"
		switch {
		case r.public:
			read, change = "none", "none"
		case r.reader:
			read = "reader"
		}
		if r.get != nil {
			served["GET "+path] = read
		}
		if r.post != nil {
			served["POST "+path] = change
		}
		if r.put != nil {
			served["PUT "+path] = change
		}
		if r.remove != nil {
			served["DELETE "+path] = change
		}
	}
	found := make(map[string]string)
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			role, _ := operation.Extensions["x-role"].(string)
			if operation.Security != nil && len(*operation.Security) == 0 {
				role += "none"
			}
			found[method+" "+path] = role
		}
	}
	if !maps.Equal(served, found) {
		t.Errorf("served: %v\ndescribed: %v", served, found)
	}
}

// TestRefusalsAreDescribed asks each route for what it cannot give: each answer, with its
// status, is one that the document lists for the route.
func TestRefusalsAreDescribed(t *testing.T) {
	login := "Basic " + base64.StdEncoding.EncodeToString([]byte("admin:secret"))
	headers := [][]string{
		{}, {versionHeader, "x"}, {versionHeader, "9.9"}, {"Authorization", "Basic x"}, {"Authorization", "Bearer x"},
		{"Content-Type", "text/plain"},
		{"If-Match", "x"}, {"Fencing-Token", "x"}, {"Accept", "text/plain"},
	}
	bodies := []string{"", "{", "[]", "null", `{"x":1}`, `"` + strings.Repeat("x", 100) + `"`}
	log := memlog.New(t)
	lends := lease.New(lease.Options{Log: log, Do: log})
	t.Cleanup(lends.Close)
	whole := Public(Health{Checks: func() []HealthCheck { return nil }, Metrics: prometheus.NewRegistry(),
		Healthcheck: true}, &Inspector{
		Service: &fake{data: []byte("{}")}, Inband: &fake{}, Lending: lends,
		Nodes: Nodes{fakeNames{}, fakeHardware{}, fakeBoots{log}, fakeWaits{}},
		ClusterReads: ClusterReads{events.NewHub(newEventLog(t)),
			func() Status { return Status{Leadership: Leadership{Health: Healthy}} }}, Auth: testAuth(t), MaxLimit: 4,
		Logger: slog.New(slog.DiscardHandler), StaleFor: func() time.Duration { return 0 },
	})
	for path, item := range document(t).Paths.Map() {
		for method := range item.Operations() {
			values := []string{node, "node-1", "no%20such", "%ff", "%00", ".."}
			if !braces.MatchString(path) || strings.HasPrefix(path, "/v1/rules/") { // the fake has any rule that it is asked for
				values = []string{node, node, node}
			}
			for v, value := range values {
				for q, query := range []string{"",
					"?stale=x&limit=x&marker=x&state=x&wait=x&after=x&key=x&manage_boot=x&record=x&free=x&types=x&node=x&local=x",
					"?limit=-1", "?limit=9999"} {
					at := braces.ReplaceAllString(path, value) + query
					// Each value meets each query and each header, in a third of all combinations.
					for n := (v + q) % 3; n < len(headers); n += 3 {
						answer(t, whole, method, at, bodies[(n+v)%len(bodies)],
							append([]string{"Authorization", login}, headers[n]...)...)
					}
				}
			}
		}
	}
}

// braces are a parameter in a path.
var braces = regexp.MustCompile(`\{[a-z_]+\}`)

// TestOpenAPIIsServed to everybody, as it is tested here.
func TestOpenAPIIsServed(t *testing.T) {
	w := answer(t, public(&fake{}, testAuth(t)), "GET", pathOpenAPI, "")
	want, err := openAPIDocument()
	if err != nil || w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), want) || !bytes.HasPrefix(want, []byte(`{`)) {
		t.Errorf("%d, %d bytes, want %d, %v", w.Code, w.Body.Len(), len(want), err)
	}
}

// TestWhatDoesNotFitIsSeen: the test of all answers would fail.
func TestWhatDoesNotFitIsSeen(t *testing.T) {
	doc := document(t)
	versions := http.Header{"X-OpenStack-Ironic-Inspector-API-Minimum-Version": {"1.0"},
		"X-OpenStack-Ironic-Inspector-API-Maximum-Version": {"1.18"}, "Content-Type": {"application/json"}}
	with := func(name, value string) http.Header {
		out := versions.Clone()
		out[name] = []string{value}
		return out
	}
	const good = `{"error":null,"finished":false,"finished_at":null,"links":[{"href":"http://h/x","rel":"self"}],"started_at":"2026-11-20T20:35:26","state":"waiting","uuid":"` +
		node + `"}`
	for _, c := range []struct {
		name, method, path string
		status             int
		header             http.Header
		body               string
		fits               bool
	}{
		{"good", "GET", statusPath, 200, versions, good, true},
		{"an error", "GET", statusPath, 404, versions, `{"error":{"message":"x"}}`, true},
		{"another status", "GET", statusPath, 201, versions, good, false},
		{"no versions", "GET", statusPath, 200, http.Header{"Content-Type": {"application/json"}}, good, false},
		{"another version", "GET", statusPath, 200, with("X-OpenStack-Ironic-Inspector-API-Maximum-Version", "1.19"), good,
			false},
		{"a header", "GET", statusPath, 200, with("X-New", "1"), good, false},
		{"another type", "GET", statusPath, 200, with("Content-Type", "text/html"), good, false},
		{"a key more", "GET", statusPath, 200, versions, strings.Replace(good, "{", `{"x":1,`, 1), false},
		{"a key less", "GET", statusPath, 200, versions, strings.Replace(good, `"error":null,`, "", 1), false},
		{"a zone", "GET", statusPath, 200, versions, strings.Replace(good, `:26"`, `:26Z"`, 1), false},
		{"a state", "GET", statusPath, 200, versions, strings.Replace(good, "waiting", "dozing", 1), false},
		{"no JSON", "GET", statusPath, 200, versions, "<html>", false},
		{"an error of another shape", "GET", statusPath, 404, versions, `{"message":"x"}`, false},
		{"503 without Retry-After", "GET", statusPath, 503, versions, `{"error":{"message":"x"}}`, false},
		{"a path that is not there", "GET", "/v1/nothing", 404, versions, `{"error":{"message":"x"}}`, true},
		{"a path that is", "GET", "/v1/nothing", 200, versions, `{}`, false},
		{"OPTIONS without Allow", "OPTIONS", statusPath, 200, versions, "", false},
		{"a body after 204", "DELETE", "/v1/rules", 204, versions, "x", false},
	} {
		err := fits(doc, httptest.NewRequest(c.method, c.path, http.NoBody), c.status, c.header, []byte(c.body))
		if (err == nil) != c.fits {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestTheOriginalFits: what was recorded of ironic-inspector is described as
// well, where it is not one of its defects.
func TestTheOriginalFits(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			var r recorded
			var raw struct {
				Response struct{ Body json.RawMessage }
			}
			if err := errors.Join(json.Unmarshal(line, &r), json.Unmarshal(line, &raw)); err != nil {
				t.Fatal(err)
			}
			if r.Request.Path == "" || r.Defect != "" {
				continue
			}
			header := make(http.Header)
			for name, value := range r.Response.Headers {
				header.Set(name, value)
			}
			target, err := url.Parse(r.Request.Path)
			if err != nil {
				t.Fatal(err)
			}
			q := httptest.NewRequest(r.Request.Method, "/", http.NoBody)
			q.URL = target
			if err := fits(document(t), q, r.Response.Status, header, raw.Response.Body); err != nil {
				t.Errorf("%s, seq %d: %v", file, r.Seq, err)
			}
		}
	}
}
