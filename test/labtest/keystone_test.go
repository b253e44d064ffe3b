//go:build e2e

package labtest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/testenv"
)

// tokenLife is long enough for a question or two on a busy machine, and short
// enough to be waited for.
const tokenLife = 20 * time.Second

// TestKeystone has Debian's Keystone say who may use the API: an administrator, a
// reader of the whole system, somebody without a role that counts; then Keystone
// stops, comes back, and a token expires.
func TestKeystone(t *testing.T) {
	if !longDays() {
		t.Skip("it takes more than a minute: TRIVET_E2E_LONG=1")
	}
	k := openstack.StartKeystone(t)
	k.People(map[string]string{"boss": "admin@metal", "watcher": "reader@", "ann": "reader@web"})
	l := New(t)
	p := l.Add("a")
	secret := filepath.Join(l.dir, "password")
	testenv.Must(t, os.WriteFile(secret, []byte(openstack.KeystonePassword+"\n"), 0o600))
	p.Env = []string{
		"TRIVET_API_AUTH_STRATEGY=keystone", "TRIVET_API_KEYSTONE_AUTH_URL=" + k.URL(), "TRIVET_API_KEYSTONE_USERNAME=trivet",
		"TRIVET_API_KEYSTONE_PASSWORD_FILE=" + secret, "TRIVET_IRONIC_ENDPOINT=http://127.0.0.1:9",
		"TRIVET_API_KEYSTONE_TIMEOUT=30s",
	}
	p.Must("init", p.Flags())
	p.Start()
	l.WaitLeader()

	node := "/v1/introspection/00000000-0000-4000-8000-000000000001"
	for _, c := range []struct {
		who, project string
		list, change int
	}{
		{"boss", "metal", 200, 404},     // such a node was never introspected
		{"watcher", "", 200, 403},       // reads, of the whole system
		{"ann", "web", 403, 403},        // reads, in a project of hers
		{"trivet", "service", 403, 403}, // examines tokens, and no more
	} {
		token := k.Token(c.who, c.project)
		p.wantStatus(t, c.who+" lists", "GET", "/v1/introspection", token, c.list)
		p.wantStatus(t, c.who+" aborts", "POST", node+"/abort", token, c.change)
	}
	reply := p.wantStatus(t, "no token", "GET", "/v1/introspection", "", 401)
	if want := fmt.Sprintf("Keystone uri=%q", k.URL()); reply.Header.Get("Www-Authenticate") != want {
		t.Errorf("challenge %q, want %q", reply.Header.Get("Www-Authenticate"), want)
	}
	p.wantStatus(t, "an invented token", "GET", "/v1/introspection", strings.Repeat("gAAAAABr", 20), 401)
	p.wantStatus(t, "everybody", "GET", "/v1", "", 200)
	p.commandLine(t, k)

	p.withoutKeystone(t, k)
	old := p.untilExpired(t, k)
	if strings.Contains(p.Log(), old) || strings.Contains(p.Log(), openstack.KeystonePassword) {
		t.Error("a token or a password is in the log")
	}
	if !strings.Contains(p.Log(), `audit.who=boss`) || !strings.Contains(p.Log(), `audit.scope="project Default/metal"`) {
		t.Errorf("the audit does not name who asked")
	}
}

// withoutKeystone stops it: whose token is known is served, all others are told
// to come again.
func (p *Peer) withoutKeystone(t *testing.T, k *openstack.Keystone) {
	t.Helper()
	known, unknown := k.Token("boss", "metal"), k.Token("watcher", "")
	p.wantStatus(t, "before Keystone stops", "GET", "/v1/introspection", known, 200)
	k.Stop()
	p.wantStatus(t, "Keystone is away", "GET", "/v1/introspection", known, 200)
	reply := p.wantStatus(t, "Keystone is away, and does not know it", "GET", "/v1/introspection", unknown, 503)
	if reply.Header.Get("Retry-After") == "" || !strings.Contains(string(reply.Body), "connection refused") {
		t.Errorf("%v %s", reply.Header, reply.Body)
	}
	p.tellsOfKeystone(t, true)
	k.Life = tokenLife
	k.Start()
	p.wantStatus(t, "Keystone is back", "GET", "/v1/introspection", k.Token("watcher", ""), 200)
	p.tellsOfKeystone(t, false)
}

// tellsOfKeystone wants operators to be told that it is away, or nothing.
func (p *Peer) tellsOfKeystone(t *testing.T, away bool) {
	t.Helper()
	_, err := p.Status()
	testenv.Must(t, err)
	silent := p.warns("keystone_away", "")
	figure := "\ntrivet_keystone_up 1\n"
	if away {
		figure = "\ntrivet_keystone_up 0\n"
	}
	reply := p.wantStatus(t, "metrics", "GET", "/metrics", "", 200)
	if (silent == nil) != away || !strings.Contains(string(reply.Body), figure) {
		t.Errorf("away: %v; the status: %v; or the metrics have no line%s", away, silent, figure)
	}
}

// untilExpired uses a token, which it returns, until it is no longer taken.
func (p *Peer) untilExpired(t *testing.T, k *openstack.Keystone) string {
	t.Helper()
	before := time.Now()
	old := k.Token("boss", "metal")
	issued := time.Now()
	p.wantStatus(t, "in time", "GET", "/v1/introspection", old, 200)
	p.lab.Eventually(2*tokenLife, "the token expires", func() error {
		reply, err := httpapi.Ask(p.wire, p.API, "GET", "/v1/introspection", map[string]string{"X-Auth-Token": old}, nil)
		if err == nil && reply.Status == http.StatusOK {
			err = fmt.Errorf("it is taken after %v", time.Since(issued))
		}
		return err
	})
	if lived := time.Since(before); lived < tokenLife-time.Second { // expiry is a whole second
		t.Errorf("a token for %v was refused after %v", tokenLife, lived)
	}
	p.wantStatus(t, "expired", "GET", "/v1/introspection", old, 401)
	return old
}

// wantStatus asks the public API with a token, "" for none.
func (p *Peer) wantStatus(t *testing.T, what, method, path, token string, want int) httpapi.Reply {
	t.Helper()
	header := make(map[string]string)
	if token != "" {
		header["X-Auth-Token"] = token
	}
	reply, err := httpapi.Ask(p.wire, p.API, method, path, header, nil)
	if err != nil || reply.Status != want {
		t.Errorf("%s: %d %s, %v; want %d", what, reply.Status, reply.Body, err, want)
	}
	return reply
}

// commandLine lists introspections as whoever sourced an openrc file does, and as
// whoever did not.
func (p *Peer) commandLine(t *testing.T, k *openstack.Keystone) {
	t.Helper()
	openrc := []string{"OS_AUTH_URL=" + k.URL(), "OS_USERNAME=boss", "OS_PASSWORD=" + openstack.KeystonePassword,
		"OS_PROJECT_NAME=metal", "OS_USER_DOMAIN_NAME=Default", "OS_PROJECT_DOMAIN_ID=default"}
	for _, c := range []struct {
		env  []string
		code int
	}{{openrc, 0}, {nil, 7}, {append(openrc[:len(openrc):len(openrc)], "OS_PASSWORD=wrong"), 7}} {
		cmd := p.command("introspection", "list", "--server", "http://"+p.API)
		cmd.Env = append(cmd.Env, c.env...)
		out, _ := cmd.CombinedOutput() // the code tells
		if got := cmd.ProcessState.ExitCode(); got != c.code {
			t.Errorf("introspection list with %d variables: exit %d, want %d\n%s", len(c.env), got, c.code, out)
		}
	}
}
