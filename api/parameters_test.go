package api

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector/accept"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/fsm/introspection"
)

func TestPages(t *testing.T) {
	for query, want := range map[string]accept.Page{
		"":                                {Limit: 1000},
		"limit=0":                         {Limit: 1000},
		"limit=1000":                      {Limit: 1000},
		"limit=+7":                        {Limit: 7}, // a space, to a server
		"limit=%2B7":                      {Limit: 7},
		"limit=1_0":                       {Limit: 10},
		"limit=2&limit=x":                 {Limit: 2},
		"unknown=1":                       {Limit: 1000},
		"marker=" + strings.ToUpper(node): {Limit: 1000, Marker: node},
		"marker=" + strings.ReplaceAll(node, "-", ""): {Limit: 1000, Marker: node},
		"state=error": {Limit: 1000, States: []introspection.NodeState{introspection.NodeError}},
		"state=aborting,enrolling,finished,reapplying": {Limit: 1000,
			States: []introspection.NodeState{introspection.NodeAborting, introspection.NodeEnrolling,
				introspection.NodeFinished, introspection.NodeReapplying}},
		"state=starting,waiting,processing,waiting&limit=3": {Limit: 3,
			States: []introspection.NodeState{introspection.NodeStarting, introspection.NodeWaiting,
				introspection.NodeProcessing}},
	} {
		f := &fake{}
		i := &Inspector{Service: f, Auth: NoAuth(), MaxLimit: 1000, Logger: slog.New(slog.DiscardHandler)}
		if w := answer(t, i.Handler(), "GET", "/v1/introspection?"+query, ""); w.Code != 200 ||
			!reflect.DeepEqual(f.pages, []accept.Page{want}) {
			t.Errorf("%s: %d, page %+v, want %+v", query, w.Code, f.pages, want)
		}
	}
}

func TestPagesThatAreRefused(t *testing.T) {
	h := public(&fake{}, NoAuth())
	for query, want := range map[string]string{
		"limit=5":                     "Limit over 4",
		"limit=99999999999999999999":  "Limit over 4",
		"limit=-1":                    "Limit cannot be negative",
		"limit=-99999999999999999999": "Limit cannot be negative",
		"limit=abc":                   "invalid literal for int() with base 10: 'abc'",
		"limit=":                      "invalid literal for int() with base 10: ''",
		"limit=1.5":                   "invalid literal for int() with base 10: '1.5'",
		"limit=_1":                    "invalid literal for int() with base 10: '_1'",
		"limit=1__0":                  "invalid literal for int() with base 10: '1__0'",
		"limit=--1":                   "invalid literal for int() with base 10: '--1'",
		"limit=it's":                  `invalid literal for int() with base 10: "it's"`,
		"limit='%22":                  `invalid literal for int() with base 10: '\'"'`,
		"marker=abc":                  "Marker not UUID-like",
		"marker=":                     "Marker not UUID-like",
		"marker=urn:uuid:" + node:     "Marker not UUID-like",
		"state=":                      `State(s) "" are not valid`,
		"state=bogus":                 `State(s) "bogus" are not valid`,
		"state=error,bogus,worse":     `State(s) "bogus, worse" are not valid`,
		"state=absent":                `State(s) "absent" are not valid`,
		"marker=x&limit=-1&state=y":   "Marker not UUID-like",
		"limit=-1&state=y":            "Limit cannot be negative",
	} {
		w := answer(t, h, "GET", "/v1/introspection?"+query, "")
		if w.Code != 400 || w.Body.String() != errorBody("Bad request: "+want) {
			t.Errorf("%s: %d %s, want %s", query, w.Code, w.Body, want)
		}
	}
}

func TestManageBoot(t *testing.T) {
	for _, c := range []struct {
		value string
		want  bool
	}{
		{"1", true}, {"t", true}, {"TRUE", true}, {"y", true}, {"yes", true}, {"On", true}, {"%20true%20", true},
		{"0", false}, {"F", false}, {"false", false}, {"n", false}, {"NO", false}, {"off", false},
	} {
		f := &fake{}
		if w := answer(t, public(f, NoAuth()), "POST", statusPath+"?manage_boot="+c.value, ""); w.Code != 202 ||
			len(f.started) != 1 || f.started[0] != c.want {
			t.Errorf("%q: %d, started with %v", c.value, w.Code, f.started)
		}
	}
	f := &fake{}
	h := public(f, NoAuth())
	for _, value := range []string{"", "2", "maybe"} {
		if w := answer(t, h, "POST", statusPath+"?manage_boot="+value, ""); w.Code != 400 ||
			w.Body.String() != errorBody("Invalid boolean value for manage_boot: "+value) {
			t.Errorf("%q: %d %s", value, w.Code, w.Body)
		}
	}
	if w := answer(t, h, "POST", statusPath, ""); w.Code != 202 || !reflect.DeepEqual(f.started, []bool{true}) {
		t.Errorf("absent: %d, started with %v", w.Code, f.started)
	}
}

// A reference becomes part of a URL of Ironic's: nothing may lead it elsewhere.
func TestReferencesToNodes(t *testing.T) {
	for path, want := range map[string]string{
		node: node, "node-2.lab_1~x": "node-2.lab_1~x",
		"00000000000040008000000002000000": "00000000000040008000000002000000",
		strings.ToUpper("abcdef"):          "ABCDEF", "...": "...",
		"..": "", ".": "", "a%3Fb": "", "a%23b": "", "a%20b": "", "%252e%252e": "", "n%C3%B6de": "",
		strings.Repeat("x", 256): "",
	} {
		f := &fake{}
		w := answer(t, public(f, NoAuth()), "POST", "/v1/introspection/"+path, "")
		if want != "" && (w.Code != 202 || !reflect.DeepEqual(f.refs, []string{want})) {
			t.Errorf("%s: %d, the service was asked for %q", path, w.Code, f.refs)
		}
		if want == "" && (w.Code != 404 || f.refs != nil || !strings.Contains(w.Body.String(), "was not found in Ironic")) {
			t.Errorf("%s: %d %s, the service was asked for %q", path, w.Code, w.Body, f.refs)
		}
	}
}

func TestVersions(t *testing.T) {
	h := public(&fake{}, NoAuth())
	const malformed = "Malformed API version: expected string in form of X.Y or latest"
	for value, want := range map[string]string{
		"1.0": "", "1.18": "", "latest": "", "LaTeSt": "",
		"1.19": "Unsupported API version 1.19, supported range is 1.0 to 1.18",
		"0.9":  "Unsupported API version 0.9, supported range is 1.0 to 1.18",
		"2.0":  "Unsupported API version 2.0, supported range is 1.0 to 1.18",
		"-1.0": "Unsupported API version -1.0, supported range is 1.0 to 1.18",
		"":     malformed, "1": malformed, "abc": malformed, "1.x": malformed, "1.2.3": malformed, "+1.2": malformed,
		"1.": malformed, ".1": malformed,
		"1.99999999999999999999": malformed, "1.0,1.0": malformed,
	} {
		status := 406
		switch want {
		case "":
			status = 200
		case malformed:
			status = 400
		}
		for _, path := range []string{"/", "/v1/introspection"} {
			w := answer(t, h, "GET", path, "", "X-OpenStack-Ironic-Inspector-API-Version", value)
			if w.Code != status || want != "" && w.Body.String() != errorBody(want) {
				t.Errorf("%q at %s: %d %s", value, path, w.Code, w.Body)
			}
		}
	}
	for _, call := range []string{"GET /v1/nope", "DELETE /v1", "GET //v1", "OPTIONS /v1", "POST /v1/continue"} {
		method, path, _ := strings.Cut(call, " ")
		if w := answer(t, h, method, "http://example.com"+path, "", "X-OpenStack-Ironic-Inspector-API-Version",
			"9.9"); w.Code != 406 {
			t.Errorf("%s: %d, the version is looked at before the route", call, w.Code)
		}
	}
	if w := answer(t, h, "GET", "/v1", "", "OpenStack-API-Version", "99.0"); w.Code != 200 {
		t.Errorf("the header that counts for nothing: %d", w.Code)
	}
}

func TestLinksLeadWhereTheRequestCameFrom(t *testing.T) {
	for _, c := range []struct {
		name, target string
		headers      []string
		want         string
	}{
		{"as asked", "http://h1:5050/", nil, "http://h1:5050"},
		{"TLS", "https://h1:5050/", nil, "https://h1:5050"},
		{"IPv6", "http://[fd00::1]:5050/", nil, "http://[fd00::1]:5050"},
		{"default port", "http://h1:80/", nil, "http://h1"},
		{"default port of TLS", "https://h1:443/", nil, "https://h1"},
		{"port of the other scheme", "http://h1:443/", nil, "http://h1:443"},
		{"all", "http://h1:5050/",
			[]string{"X-Forwarded-Proto", "https", "X-Forwarded-Host", "vip.example.org", "X-Forwarded-Port", "8443",
				"X-Forwarded-Prefix", "/introspection"},
			"https://vip.example.org:8443/introspection"},
		{"last hop", "http://h1:5050/",
			[]string{"X-Forwarded-Host", "liar.example, vip.example:99", "X-Forwarded-Proto", "http,HTTPS"},
			"https://vip.example:99"},
		{"port alone", "http://h1:5050/", []string{"X-Forwarded-Port", "80"}, "http://h1"},
		{"port, IPv6", "http://[fd00::1]/", []string{"X-Forwarded-Port", "81"}, "http://[fd00::1]:81"},
		{"prefix, slash at the end", "http://h1/", []string{"X-Forwarded-Prefix", "/a/b/"}, "http://h1/a/b"},
		{"prefix without slash", "http://h1/", []string{"X-Forwarded-Prefix", "a"}, "http://h1/a"},
		{"nonsense", "http://h1/",
			[]string{"X-Forwarded-Proto", "javascript", "X-Forwarded-Host", `"><x`, "X-Forwarded-Port", "8x",
				"X-Forwarded-Prefix", `/"`}, "http://h1"},
		{"empty", "http://h1/", []string{"X-Forwarded-Proto", "", "X-Forwarded-Host", "a,", "X-Forwarded-Port", ",",
			"X-Forwarded-Prefix", "/"}, "http://h1"},
	} {
		w := answer(t, public(&fake{}, NoAuth()), "GET", c.target, "", c.headers...)
		if want := `"href":"` + c.want + `/v1"`; !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %s, want %s", c.name, w.Body, want)
		}
	}
	// Only a proxy that was named says where the API is.
	for _, path := range []string{"/", "/v1", "/v1//rules", "/v1/rules/x", "/v1/introspection", statusPath} {
		r := httptest.NewRequest("GET", "http://h1:5050"+path, http.NoBody)
		r.RemoteAddr = "203.0.113.7:1024"
		for _, part := range []string{"Proto", "Host", "Port", "Prefix", "For", "Server"} {
			r.Header.Set("X-Forwarded-"+part, "evil")
		}
		r.Header.Set("X-Forwarded-Proto", "https")
		r.Header.Set("X-Forwarded-Port", "6666")
		r.Header.Set("Forwarded", "host=evil;proto=https")
		w := httptest.NewRecorder()
		public(&fake{}, NoAuth()).ServeHTTP(w, r)
		text := w.Body.String() + fmt.Sprint(w.Header())
		for _, told := range []string{"evil", "https://", "6666"} {
			if strings.Contains(text, told) {
				t.Errorf("forwarded-by-any: GET %s repeats what a caller that is no proxy says: %s", path, text)
			}
		}
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Host = "" // HTTP/1.0
	if got := rootOf(r); got != "http://localhost" {
		t.Errorf("without a host: %s", got)
	}
}

// Whatever is in the query, a page is one that the service may be given, or
// there is a refusal.
func FuzzPage(f *testing.F) {
	for _, q := range []string{"", "limit=3", "limit=-1&state=", "marker=" + node + "&state=error,waiting",
		"limit=1_0&limit=%2B", "state=%00,\xff", "marker={" + node + "}", "limit=%27%22\\"} {
		f.Add(q, 1000)
	}
	f.Fuzz(func(t *testing.T, raw string, most int) {
		if most < 1 {
			return
		}
		q, _ := url.ParseQuery(raw) // what could be read, as net/url's Query does
		p, err := parsePage(q, most)
		if err != nil {
			if s := status(err); s != http.StatusBadRequest {
				t.Errorf("%q: status %d", raw, s)
			}
			return
		}
		if p.Limit < 1 || p.Limit > most || len(p.States) > 8 {
			t.Errorf("%q: %+v", raw, p)
		}
		if p.Marker != "" && (uuid.Validate(p.Marker) != nil || strings.ToLower(p.Marker) != p.Marker ||
			len(p.Marker) != 36) {
			t.Errorf("%q: marker %q", raw, p.Marker)
		}
	})
}

// Whatever a proxy claims, a link cannot leave its JSON string.
func FuzzLinks(f *testing.F) {
	f.Add("h1:5050", "https", "vip", "8443", "/p")
	f.Add("", "", "[::1]:1", "x", "//")
	f.Add(`"`, "x", "a\\b", "-1", "/%zz")
	f.Fuzz(func(t *testing.T, host, proto, forwarded, port, prefix string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = host
		r.Header = http.Header{"X-Forwarded-Proto": {proto}, "X-Forwarded-Host": {forwarded}, "X-Forwarded-Port": {port},
			"X-Forwarded-Prefix": {prefix}}
		root := rootOf(r)
		if !consistsOf(root, isPlain) || !strings.HasPrefix(root, "http") || strings.HasSuffix(root, "/") {
			t.Errorf("%q", root)
		}
	})
}

// Whatever is asked for, every answer is JSON or empty, and every refusal has
// the contract's shape.
func FuzzRequests(f *testing.F) {
	f.Add("GET", statusPath, "limit=1", "1.18")
	f.Add("POST", "/v1/introspection/%2e%2e/abort", "manage_boot=;", "")
	f.Add("OPTIONS", "//v1///", "stale=1", "latest")
	f.Add("HEAD", "/v1/introspection/\x00/data/", "", "1.x")
	service := &fake{records: []introspection.Record{underWay()}, data: []byte("{}")}
	h := public(service, NoAuth())
	f.Fuzz(func(t *testing.T, method, path, query, version string) {
		*service = fake{records: service.records, data: service.data}
		r := httptest.NewRequest("GET", "/", strings.NewReader("{}"))
		r.Method, r.URL.Path, r.URL.RawQuery = method, path, query
		r.Header.Set("X-OpenStack-Ironic-Inspector-API-Version", version)
		if (Health{Healthcheck: true}).answers(path) {
			return
		}
		w := httptest.NewRecorder()
		checked(t, h).ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Errorf("%s %q?%q: %d %s", method, path, query, w.Code, w.Body)
		}
		checkFuzzed(t, w)
	})
}
