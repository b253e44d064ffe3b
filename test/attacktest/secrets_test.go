//go:build e2e

package attacktest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/app/datadir"
	rafthost "github.com/trivet-ha/trivet/raftstore/host"
	"github.com/trivet-ha/trivet/test/sandbox/simironic"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

const (
	keystonePassword = "planted-Password-of-keystone"
	keystoneToken    = "planted-Token-of-keystone-0123456789"
	bmcPassword      = "planted-Password-of-a-BMC"
	rulePassword     = "planted-Password-in-a-rule"
	mistyped         = "planted-Password-mistyped-at-login"
	webhookSecret    = "cGxhbnRlZC1zZWNyZXQtb2YtYS13ZWJob29rLTAxMjM0NTY3"
	secretNode       = "00000000-0000-4000-8000-0000000000a1"
	strictNode       = "00000000-0000-4000-8000-0000000000a2"
)

// secretSite is a peer in a process of its own, and what an onlooker sees of it.
type secretSite struct {
	*trivetProcess
	ironic  *httptest.Server
	secrets map[string]string // what it is → the value
	seen    map[string]string // where → what stands there
}

// careless answers for Keystone and Ironic, which repeat in errors what they were sent.
// Ironic shows BMC passwords, as one does whose policy allows that.
func careless(t *testing.T) *httptest.Server {
	sim := simironic.New(simironic.Options{})
	t.Cleanup(sim.Close)
	srv := httptest.NewServer(nil)
	t.Cleanup(srv.Close)
	for i, id := range []string{secretNode, strictNode} {
		err := sim.Enroll(simironic.Enrolment{UUID: id, Name: fmt.Sprintf("node-%d", i), BMC: "192.0.2.7" + fmt.Sprint(i),
			MACs: []string{fmt.Sprintf("52:54:00:ab:00:0%d", i)}})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		sim.ServeHTTP(w, httptest.NewRequest("PATCH", "/v1/nodes/"+id,
			strings.NewReader(`[{"op":"add","path":"/driver_info/ipmi_password","value":"`+bmcPassword+`"}]`)))
		if w.Code != http.StatusOK {
			t.Fatal(w.Code, w.Body)
		}
	}
	srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		switch {
		case r.URL.Path == "/v3/auth/tokens":
			w.Header().Set("X-Subject-Token", keystoneToken)
			w.WriteHeader(http.StatusCreated)
			_, _ = fmt.Fprintf(w, `{"token": {"expires_at": %q, "catalog": [{"type": "baremetal", "endpoints":
				[{"interface": "public", "region_id": "r", "region": "r", "url": %q}]}]}}`, // who asked may have gone
				time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano), srv.URL)
		case r.Method == "PATCH" && strings.Contains(r.URL.Path, strictNode) && bytes.Contains(body, []byte(rulePassword)):
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			said, _ := json.Marshal(map[string]string{"error_message": fmt.Sprintf( // of strings alone
				`{"faultstring": "Couldn't apply patch %s with token %s"}`,
				strings.ReplaceAll(string(body), `"`, `'`), r.Header.Get("X-Auth-Token"))})
			_, _ = w.Write(said) // who asked may have gone
		default:
			sim.ServeHTTP(w, r)
		}
	})
	return srv
}

func newSecretSite(t *testing.T) *secretSite {
	s := &secretSite{ironic: careless(t), seen: make(map[string]string), secrets: map[string]string{
		"Keystone password": keystonePassword, "Keystone token": keystoneToken, "BMC password": bmcPassword,
		"password in a rule": rulePassword, "password mistyped at login": mistyped, "webhook secret": webhookSecret,
	}}
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, fmt.Sprint(r.Header), http.StatusInternalServerError)
	}))
	t.Cleanup(echo.Close)
	s.trivetProcess = newTrivetProcess(t, fmt.Sprintf(`name: h1
ironic: {auth_type: keystone, auth_url: %q, username: u, password: %q, project_name: p, endpoint: %q, retries: 0}
api:
  auth_strategy: http_basic
events: {receivers: [cmdb=%s], secrets: [cmdb=DIR/webhook], kinds: [cmdb=rule, cmdb=introspection]}
log: {level: debug}
`, s.ironic.URL, keystonePassword, s.ironic.URL, echo.URL))
	s.write("webhook", "whsec_"+webhookSecret+"\n")
	var made struct{ Token, Password string }
	if err := json.Unmarshal([]byte(s.run(0, "init", "-o", "json")), &made); err != nil {
		t.Fatal(err)
	}
	s.secrets["join token"], s.secrets["password of an administrator"] = made.Token, made.Password
	s.write("login", "admin:"+made.Password+"\n")
	s.serve("TRIVET_API_KEYSTONE_PASSWORD=" + keystonePassword)
	return s
}

// use does what hands the secrets to the peer.
func (s *secretSite) use() {
	s.Helper()
	s.write("rules.json", `{"conditions": [{"field": "inventory", "op": "is-empty", "invert": true}], "actions": [{"action":
		"set-attribute", "path": "/driver_info/ipmi_password", "value": "`+rulePassword+`"}]}`)
	s.see("rule import --dry-run", s.run(0, "rule", "import", s.path("rules.json"), "--dry-run"))
	s.see("rule import", s.run(0, "rule", "import", s.path("rules.json")))
	s.secrets["private key of an operator"] = keyOf(s.run(0, "cert", "issue-operator", "ann"))
	s.secrets["second join token"] = strings.TrimSpace(s.run(0, "token", "create", "-q"))
	for i, node := range []string{secretNode, strictNode} {
		s.run(0, "introspection", "start", node)
		s.post("/v1/continue", fmt.Sprintf(`{"inventory": {"interfaces": [{"name": "eth0", "ipv4_address": "192.0.2.9",
			"mac_address": "52:54:00:ab:00:0%d"}], "bmc_address": "192.0.2.7%d", "cpu": {"count": 2,
			"architecture": "x86_64"}, "memory": {"physical_mb": 1024}, "disks": [{"name": "/dev/sda", "size": 100000000000}]},
			"root_disk": {"name": "/dev/sda", "size": 100000000000}}`, i, i))
	}
	testwait.Until(s, "both introspections end", func() bool {
		var all []struct{ State string }
		err := json.Unmarshal([]byte(s.run(-1, "introspection", "list", "-o", "json")), &all)
		return err == nil && len(all) == 2 && all[0].State != "processing" && all[0].State != "waiting" &&
			all[1].State != "processing" && all[1].State != "waiting"
	})
	if said := s.run(-1, "introspection", "show", strictNode, "-o", "json"); !strings.Contains(said, "apply patch") {
		s.Errorf("Ironic's refusal, which repeats what it was sent, is not told: %s", said)
	}
	s.logIn(mistyped)
	s.secrets["session cookie"] = s.logIn(s.secrets["password of an administrator"])
	s.run(-1, "introspection", "list", "--server", s.url(), "--credentials", s.path("login"))
}

// logIn logs in at the page and returns the cookie, "" for none.
func (s *secretSite) logIn(password string) string {
	s.Helper()
	body, err := json.Marshal(map[string]string{"user": "admin", "password": password})
	if err != nil {
		s.Fatal(err)
	}
	req, err := http.NewRequestWithContext(s.Context(), "POST", s.url()+"/ui/api/session", bytes.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Origin", s.url())
	resp, text := s.ask(req)
	s.see("login at the page", text)
	for _, c := range resp.Cookies() {
		return c.Value
	}
	return ""
}

// look gathers what others may see.
func (s *secretSite) look() {
	s.Helper()
	for _, words := range []string{"status -o json", "peers -o json", "members -o json", "cert status -o json",
		"config show --effective", "debug fsm dump", "introspection list -o json", "introspection show " + strictNode,
		"node history " + strictNode, "rule list -o json", "token list -o json", "doctor --check config"} {
		s.see("trivet "+words, s.run(-1, strings.Fields(words)...))
	}
	s.run(0, "snapshot", "save", s.path("snapshot"))
	s.see("trivet snapshot inspect", s.run(0, "snapshot", "inspect", s.path("snapshot")))
	s.run(0, "debug", "bundle", "--with-state", "-f", s.path("bundle.tar.gz"))
	s.see("support bundle", s.unpack("bundle.tar.gz"))
	for _, path := range []string{"/metrics", "/v1/status", "/v1/events", "/v1/introspection", "/ui/api/overview",
		"/ui/api/nodes", "/ui/api/events", "/ui/api/state"} {
		req, err := http.NewRequestWithContext(s.Context(), "GET", s.url()+path, nil)
		if err != nil {
			s.Fatal(err)
		}
		req.SetBasicAuth("admin", s.secrets["password of an administrator"])
		_, text := s.ask(req)
		s.see("GET "+path, text)
	}
	for _, path := range []string{"/v1/log?limit=1000", "/v1/events"} {
		s.see("socket "+path, s.control(path))
	}
	for what, text := range s.processes() {
		s.see(what, text)
	}
	s.see("log at level debug", s.read("log"))
}

func (s *secretSite) see(where, text string) { s.seen[where] += text + "\n" }

// unpack returns all files of an archive.
func (s *secretSite) unpack(name string) string {
	s.Helper()
	f, err := os.Open(s.path(name))
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	plain, err := gzip.NewReader(f)
	if err != nil {
		s.Fatal(err)
	}
	var all strings.Builder
	for archive := tar.NewReader(plain); ; {
		switch h, err := archive.Next(); {
		case errors.Is(err, io.EOF):
			return all.String()
		case err != nil:
			s.Fatal(err)
		default:
			fmt.Fprintf(&all, "== %s\n", h.Name)
			if _, err := io.Copy(&all, archive); err != nil {
				s.Fatal(err)
			}
		}
	}
}

// keys reads the keys of the stopped peer.
func (s *secretSite) keys() {
	s.Helper()
	dir, err := datadir.Open(s.path("d"))
	if err != nil {
		s.Fatal(err)
	}
	defer dir.Close()
	st, err := rafthost.Open(dir.RaftDir())
	if err != nil {
		s.Fatal(err)
	}
	old, err := rafthost.Replay(st)
	if err = errors.Join(err, st.Close()); err != nil {
		s.Fatal(err)
	}
	keys := old.State.View().Secrets()
	s.secrets["gossip key"] = string(keys.GossipKey)
	s.secrets["private key of the CA"] = keyOf(string(keys.CAKey))
	s.secrets["private key of the peer"] = keyOf(s.read("d/peer/credentials.pem"))
	s.secrets["password's hash"] = strings.TrimSpace(strings.TrimPrefix(s.read("htpasswd"), "admin:"))
}

// keyOf is the first line of the private key in a text: no other text has it.
func keyOf(pem string) string {
	_, key, _ := strings.Cut(pem, "PRIVATE KEY-----\n")
	line, _, _ := strings.Cut(key, "\n")
	return line
}

// forms are the ways in which programs write a secret.
func forms(secret string) []string {
	raw := []byte(secret)
	return []string{secret, url.QueryEscape(secret), hex.EncodeToString(raw), fmt.Sprintf("%X", raw), fmt.Sprint(raw),
		base64.RawStdEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw), fmt.Sprintf("%q", secret)}
}

// TestSecretsShowNowhere plants every secret of a site in a peer and looks for it in all that
// others may see of the peer: what is sent to support, logs, programs' lists, metrics.
func TestSecretsShowNowhere(t *testing.T) {
	s := newSecretSite(t)
	s.use()
	s.look()
	s.stop()
	s.keys()
	leaks, looked := 0, 0
	for what, secret := range s.secrets {
		if len(secret) < 8 {
			t.Fatalf("the %s is %q: there is nothing to look for", what, secret)
		}
		for where, text := range s.seen {
			looked++
			for _, form := range forms(secret) {
				if at := strings.Index(text, form); at >= 0 {
					leaks++
					t.Errorf("secret-shows: the %s in %s: …%s…", what, where, text[max(0, at-200):min(len(text), at+len(form)+40)])
					break
				}
			}
		}
	}
	for where, text := range s.seen { // order-free: each on its own
		if len(text) < 20 && where != "rule import" {
			t.Errorf("%s tells nothing: %q", where, text)
		}
	}
	if snapshot := s.read("snapshot"); !strings.Contains(snapshot, s.secrets["gossip key"]) &&
		!strings.Contains(s.read("d/peer/gossip.key"), s.secrets["gossip key"]) {
		t.Log("neither snapshot nor file holds the gossip key in the clear")
	}
	testenv.Count(t, "security.secrets_planted", float64(len(s.secrets)))
	testenv.Count(t, "security.secrets_looked_for", float64(looked))
	testenv.Count(t, "security.leaks", float64(leaks))
}
