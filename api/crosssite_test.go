package api

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
)

// A page that an operator looks at cannot act for that operator, over real HTTP.
func TestPagesOfOtherSitesChangeNothing(t *testing.T) {
	f := &fake{records: []introspection.Record{underWay()}, data: []byte("{}")}
	for name, auth := range map[string]Auth{"noauth": NoAuth(), "http_basic": testAuth(t)} {
		i := &Inspector{Service: f, Auth: auth, MaxLimit: 1, Logger: slog.New(slog.DiscardHandler),
			StaleFor: func() time.Duration { return 0 }}
		server := httptest.NewServer(checked(t, i.Handler()))
		defer server.Close()
		own := server.URL
		for _, c := range []struct {
			what    string
			headers []string
			allowed bool
		}{
			{"no browser", nil, true},
			{"its own page", []string{"Origin", own, "Sec-Fetch-Site", "same-origin"}, true},
			{"its own page, an old browser", []string{"Origin", own}, true},
			{"typed into the address bar", []string{"Sec-Fetch-Site", "none"}, true},
			{"another site", []string{"Sec-Fetch-Site", "cross-site"}, false},
			{"another host of the site", []string{"Origin", "http://wiki.example.org", "Sec-Fetch-Site", "same-site"}, false},
			{"another site, an old browser", []string{"Origin", "http://evil.example"}, false},
			{"another port of the host", []string{"Origin", "http://127.0.0.1:1"}, false},
			{"a page of no origin", []string{"Origin", "null"}, false},
			{"a file", []string{"Origin", "file://"}, false},
		} {
			for _, r := range i.resources() {
				path := strings.NewReplacer(":node", node, ":uuid", node, ":rule", node).Replace(r.path)
				for method, there := range map[string]bool{"GET": r.get != nil, "POST": r.post != nil, "PUT": r.put != nil,
					"DELETE": r.remove != nil} {
					if !there {
						continue
					}
					request, err := http.NewRequest(method, own+path, strings.NewReader(bodyFor(path)))
					if err != nil {
						t.Fatal(err)
					}
					request.SetBasicAuth("admin", "secret") // as a browser does that was asked for it once
					for n := 0; n+1 < len(c.headers); n += 2 {
						request.Header.Set(c.headers[n], c.headers[n+1])
					}
					resp, err := server.Client().Do(request)
					if err != nil {
						t.Fatal(err)
					}
					resp.Body.Close()
					if allowed := resp.StatusCode < 400; allowed != (c.allowed || method == "GET") {
						t.Errorf("cross-site: %s, %s: %s %s: %d", name, c.what, method, path, resp.StatusCode)
					}
				}
			}
		}
	}
}

// With a token no browser can have been made to send it.
func TestATokenMayComeFromAnywhere(t *testing.T) {
	h := public(&fake{}, keystoneAuth(t, &examiner{}, nil))
	if w := answer(
		t, h, "POST", statusPath, "", tokenHeader, "x", "Origin", "http://dashboard.example.org"); w.Code != 401 {
		t.Errorf("with a token: %d, want the token to be judged", w.Code)
	}
	if w := answer(t, h, "POST", statusPath, "", "Origin", "http://dashboard.example.org"); w.Code != 403 {
		t.Errorf("without: %d", w.Code)
	}
}
