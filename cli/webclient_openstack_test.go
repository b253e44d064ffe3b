package cli

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cli/term"
)

// withVariables runs a command as trivetOn does, in an environment.
func withVariables(t *testing.T, network http.RoundTripper, env []string, words ...string) spoken {
	t.Helper()
	var out, talk bytes.Buffer
	p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &out, Err: &talk, Env: env, Wall: time.Now,
		Random: zeroes{}, Transport: network}}
	code := p.run(t.Context(), words)
	return spoken{out.String(), talk.String(), code}
}

// keystoned has an API ask for the token that its Keystone gives for a login.
func keystoned(t *testing.T) (network hosts, logins *[]string) {
	t.Helper()
	api := newFakeAPI()
	api.add("n", 0)
	api.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("X-Auth-Token") == "good" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Keystone uri="http://k:5000/v3"`)
		say(w, http.StatusUnauthorized, "Authentication required")
		return true
	}
	logins = new([]string)
	identity := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*logins = append(*logins, string(body))
		if !strings.Contains(string(body), `"s3cret"`) {
			say(w, http.StatusUnauthorized, "The request you have made requires authentication.")
			return
		}
		w.Header().Set("X-Subject-Token", "good")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"token": {"expires_at": "2030-01-01T00:00:00.000000Z"}}`) // the client checks
	})
	return hosts{"h1:5050": api, "k:5000": identity}, logins
}

// TestTokensOfKeystone goes the ways to a token, and the ways to none.
func TestTokensOfKeystone(t *testing.T) {
	openrc := []string{"OS_AUTH_URL=http://k:5000/v3", "OS_USERNAME=ann", "OS_PASSWORD=s3cret", "OS_PROJECT_NAME=metal",
		"OS_USER_DOMAIN_NAME=Users", "OS_PROJECT_DOMAIN_ID=default"}
	with := func(variables ...string) []string { return append(append([]string{}, openrc...), variables...) }
	for _, c := range []struct {
		name   string
		env    []string
		flags  []string
		code   int
		text   string
		logins int
	}{
		{"openrc", openrc, nil, 0, id("n"), 1},
		{"a token", []string{"OS_TOKEN=good"}, nil, 0, id("n"), 0},
		{"a token as a flag", with("OS_PASSWORD=wrong"), []string{"--os-token=good"}, 0, id("n"), 0},
		{"an old token", []string{"OS_TOKEN=old"}, nil, term.ExitNotAuthorised, "--os-token or OS_TOKEN", 0},
		{"nothing", nil, nil, term.ExitNotAuthorised, "source the openrc file", 0},
		{"a wrong password", with("OS_PASSWORD=wrong"), nil, term.ExitNotAuthorised, "requires authentication", 1},
		{"half an openrc", []string{"OS_AUTH_URL=http://k:5000/v3", "OS_USERNAME=ann"}, nil, term.ExitUsage,
			"OS_PASSWORD is not", 0},
		{"another host", with("OS_AUTH_URL=http://nowhere:5000"), nil, term.ExitFailed, "no answer from Keystone", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			network, logins := keystoned(t)
			words := append([]string{"introspection", "show", "n", "--server=http://h1:5050"}, c.flags...)
			withVariables(t, network, c.env, words...).want(t, c.code, c.text, "!s3cret", "!wrong")
			if len(*logins) != c.logins {
				t.Errorf("%d logins, want %d", len(*logins), c.logins)
			}
		})
	}
}

// TestOpenrcOfOthers: who asks for no token is shown none, and Keystone is not
// asked for one.
func TestOpenrcOfOthers(t *testing.T) {
	network, logins := keystoned(t)
	open := newFakeAPI()
	open.add("n", 0)
	network["h1:5050"] = open
	withVariables(t, network, []string{"OS_AUTH_URL=http://k:5000", "OS_USERNAME=ann", "OS_PASSWORD=s3cret"},
		"introspection", "show", "n", "--server=http://h1:5050").want(t, 0, id("n"))
	if len(*logins) != 0 {
		t.Error("logged in for nothing")
	}
}
