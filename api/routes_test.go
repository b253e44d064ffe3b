package api

import (
	"bytes"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
)

const (
	asAdmin  = "Basic YWRtaW46c2VjcmV0" // admin:secret
	asReader = "Basic YW5uOnNlY3JldA==" // ann:secret
)

// readerAuth knows admin and ann, whose password is secret too; ann only reads.
func readerAuth(t testing.TB, logger *slog.Logger) *BasicAuth {
	t.Helper()
	path := filepath.Join(t.TempDir(), "htpasswd")
	write(t, path, line(t, "admin", "secret")+line(t, "ann", "secret"))
	b, err := NewBasicAuth(path, []string{"ann", "anna"}, time.Now, rand.Reader, logger)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestPolicy is the table of docs/contract.md#resources, who may do what: each path and
// method, as a stranger, a reader and an admin.
func TestPolicy(t *testing.T) {
	f := &fake{records: []introspection.Record{underWay()}, data: []byte("{}")}
	h := public(f, readerAuth(t, slog.New(slog.DiscardHandler)))
	for _, c := range []struct {
		method, path             string
		stranger, reader, admins int
	}{
		{"GET", "/", 200, 200, 200},
		{"GET", "/v1", 200, 200, 200},
		{"POST", "/v1/continue", 200, 200, 200},
		{"GET", "/healthcheck", 200, 200, 200},
		{"GET", "/v1/introspection", 401, 200, 200},
		{"HEAD", "/v1/introspection", 401, 200, 200},
		{"GET", statusPath, 401, 200, 200},
		{"HEAD", statusPath, 401, 200, 200},
		{"POST", statusPath, 401, 403, 202},
		{"POST", statusPath + "/abort", 401, 403, 202},
		{"GET", statusPath + "/data", 401, 403, 200},
		{"HEAD", statusPath + "/data", 401, 403, 200},
		{"GET", statusPath + "/data/unprocessed", 401, 403, 200},
		{"POST", statusPath + "/data/unprocessed", 401, 403, 202},
		{"OPTIONS", statusPath, 200, 200, 200},
		{"PUT", statusPath, 405, 405, 405},
	} {
		for who, want := range map[string]int{"": c.stranger, asReader: c.reader, asAdmin: c.admins} {
			changes := len(f.refs)
			w := answer(t, h, c.method, c.path, "{}", authorization(who)...)
			if w.Code != want {
				t.Errorf("%s %s as %q: %d %s, want %d", c.method, c.path, who, w.Code, w.Body, want)
			}
			if want == 403 && w.Body.String() != errorBody("Access denied by policy") {
				t.Errorf("%s %s: %s", c.method, c.path, w.Body)
			}
			if (want == 401 || want == 403) && len(f.refs) != changes {
				t.Errorf("%s %s as %q reached the service", c.method, c.path, who)
			}
		}
	}
}

func authorization(credentials string) []string {
	if credentials == "" {
		return nil
	}
	return []string{"Authorization", credentials}
}

// Whatever is added to the API is for admins until its line says otherwise.
func TestReadersSeeWhatTheContractNames(t *testing.T) {
	i := &Inspector{Service: &fake{}, Auth: readerAuth(t, slog.New(slog.DiscardHandler)), MaxLimit: 1,
		Logger: slog.New(slog.DiscardHandler)}
	open := map[string]bool{"/v1/introspection": true, "/v1/introspection/:node": true}
	for _, r := range i.resources() {
		if r.reader != open[r.path] {
			t.Errorf("%s is for readers: %v", r.path, r.reader)
		}
		path := strings.NewReplacer(":node", node, ":uuid", node, ":rule", node).Replace(r.path)
		for method, handler := range map[string]bool{"POST": r.post != nil, "DELETE": r.remove != nil,
			"GET": r.get != nil && !r.reader} {
			if !handler || r.public {
				continue
			}
			if w := answer(t, i.Handler(), method, path, "{}", "Authorization", asReader); w.Code != http.StatusForbidden {
				t.Errorf("%s %s as a reader: %d", method, path, w.Code)
			}
		}
	}
}

func TestAReaderWhoIsNoUserIsNamed(t *testing.T) {
	var logged bytes.Buffer
	readerAuth(t, slog.New(slog.NewTextHandler(&logged, nil)))
	if s := logged.String(); !strings.Contains(s, "user=anna ") || strings.Contains(s, "user=ann ") {
		t.Errorf("the log says %q", s)
	}
}

// A strategy that forgets to say what somebody may do must not let them.
func TestNoRoleMayNothing(t *testing.T) {
	h := public(&fake{}, forgetful{})
	for _, path := range []string{statusPath, "/v1/introspection", statusPath + "/data"} {
		if w := answer(t, h, "GET", path, ""); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// forgetful lets everybody in as nobody.
type forgetful struct{ noAuth }

func (forgetful) Identify(*http.Request, netip.Addr) (Caller, error) { return Caller{Name: "x"}, nil }
