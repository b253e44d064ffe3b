package cli

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cli/term"
)

// asked is a network that notes where requests go.
type asked struct{ urls []string }

// RoundTrip implements http.RoundTripper.
func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	a.urls = append(a.urls, r.URL.Scheme+"://"+r.URL.Host)
	answer := map[string]any{"introspection": []any{}, "rules": []any{}, "leases": []any{}, "events": []any{}}
	text, err := json.Marshal(answer)
	rec := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: http.NoBody, Request: r}
	if err == nil {
		rec.Body = readCloser{bytes.NewReader(text)}
	}
	return rec, err
}

type readCloser struct{ *bytes.Reader }

// Close implements io.Closer.
func (readCloser) Close() error { return nil }

// TestCommandsAskWhereTheAPIListens: without --server the API on this host is asked where
// api.listen and api.tls say.
func TestCommandsAskWhereTheAPIListens(t *testing.T) {
	for yaml, want := range map[string]string{
		"": "http://127.0.0.1:5050", "api: {listen: ':5051'}": "http://127.0.0.1:5051",
		"api: {listen: '0.0.0.0:5051'}":                       "http://127.0.0.1:5051",
		"api: {listen: '192.0.2.1:5050'}":                     "http://192.0.2.1:5050",
		"api: {listen: '[2001:db8::1]:5050'}":                 "http://[2001:db8::1]:5050",
		"api: {listen: '[::]:6000'}":                          "http://127.0.0.1:6000",
		"api: {listen: 'localhost:5050'}":                     "http://localhost:5050",
		"api: {listen: ':5050', tls: {certificate: cluster}}": "https://127.0.0.1:5050",
		"api: {listen: '192.0.2.1:5050'}\nraft: {timing: x}":  "http://192.0.2.1:5050", // what could be understood counts
		"api: {listen: '192.0.2.1:0'}":                        "",
	} {
		for _, words := range [][]string{{"introspection", "list"}, {"rule", "list"}, {"lease", "list"},
			{"watch", "--once"}} {
			network := &asked{}
			code, said := askAPI(t, network, yaml, nil, words...)
			if want == "" {
				if code != term.ExitUsage || len(network.urls) > 0 ||
					!strings.Contains(said, "api.listen: 192.0.2.1:0 is another port") || !strings.Contains(said, "--server") {
					t.Errorf("%s, %v: exit %d, asked %v: %s", yaml, words, code, network.urls, said)
				}
				continue
			}
			if len(network.urls) == 0 || network.urls[0] != want {
				t.Errorf("%s, %v: asked %v, want %s: %s", yaml, words, network.urls, want, said)
			}
		}
	}
	for name, test := range map[string]struct{ env, flags []string }{
		"the variable": {[]string{"TRIVET_SERVER=http://h9:1"}, nil}, "the flag": {nil, []string{"--server", "http://h9:1"}},
	} {
		network := &asked{}
		if _, said := askAPI(t, network, "api: {listen: '192.0.2.1:5050'}", test.env,
			append([]string{"introspection", "list"}, test.flags...)...); len(network.urls) == 0 ||
			network.urls[0] != "http://h9:1" {
			t.Errorf("%s comes first: asked %v: %s", name, network.urls, said)
		}
	}
}

func askAPI(t *testing.T, network http.RoundTripper, yaml string, env []string, words ...string) (int, string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "t.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	var talk bytes.Buffer
	p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &talk, Err: &talk, Wall: time.Now,
		Random: rand.Reader, Transport: network,
		Env: append(env, "TRIVET_CONFIG="+file, "TRIVET_SOCKET="+filepath.Join(dir, "s"))}}
	code := p.run(t.Context(), words)
	return code, talk.String()
}
