package ironic

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/internal/servicecreds"
)

// write puts content into a file of its own.
func write(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// trusting adds the server's certificate to those that c trusts.
func trusting(t *testing.T, c config.Ironic, server *httptest.Server) config.Ironic {
	t.Helper()
	c.TLS.CAFile = write(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	return c
}

func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, aNode) // the client checks
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that shall fail
	server.StartTLS()
	t.Cleanup(server.Close)
	c := conf(server.URL)
	if _, err := dial(t, trusting(t, c, server)).Node(t.Context(), node1); err != nil {
		t.Error(err)
	}
	_, err := dial(t, c).Node(t.Context(), node1)
	if e := asIronic(t, err); !strings.Contains(e.Error(), "ironic.ca_file") || !Unjudged(err) {
		t.Errorf("a stranger's certificate: %v", e)
	}
}

func TestFilesThatWillNotDo(t *testing.T) {
	base := config.Ironic{Endpoint: "http://h", AuthType: "http_basic", Username: "u"}
	for _, test := range []struct {
		name   string
		change func(*config.Ironic)
		want   string
	}{
		{"no CA file", func(c *config.Ironic) { c.TLS.CAFile = "/nowhere" }, "ironic.ca_file: "},
		{"no certificate in it", func(c *config.Ironic) { c.TLS.CAFile = write(t, "hello") }, "ironic.ca_file: "},
		{"a large CA file", func(c *config.Ironic) { c.TLS.CAFile = write(t, strings.Repeat("x", servicecreds.MaxPEM+1)) },
			"ironic.ca_file: "},
		{"no password file", func(c *config.Ironic) { c.PasswordFile = "/nowhere" }, "ironic.password_file: "},
		{"empty", func(c *config.Ironic) { c.PasswordFile = write(t, "\n") }, "ironic.password_file: "},
		{"two lines", func(c *config.Ironic) { c.PasswordFile = write(t, "hunter2\nhunter2\n") }, "ironic.password_file: "},
		{"a large password", func(c *config.Ironic) {
			c.PasswordFile = write(t, strings.Repeat("x", servicecreds.MaxPassword+1))
		}, "ironic.password_file: "},
	} {
		c := base
		test.change(&c)
		if _, err := New(c, slog.New(slog.DiscardHandler)); err == nil || !strings.HasPrefix(err.Error(), test.want) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestBasic(t *testing.T) {
	var password string // of the service; one request at a time
	f := &fake{answers: []answer{{200, aNode}}}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, given, ok := r.BasicAuth(); !ok || user != "trivet" || given != password {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		f.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	c := conf(f.URL)
	c.AuthType, c.Username, c.Password, password = "http_basic", "trivet", "s3cret: ä", "s3cret: ä"
	if _, err := dial(t, c).Node(t.Context(), node1); err != nil {
		t.Error(err)
	}
	c.Password, c.PasswordFile = "", write(t, password+"\n")
	client := dial(t, c)
	if _, err := client.Node(t.Context(), node1); err != nil {
		t.Error(err)
	}
	password = "changed"
	if _, err := client.Node(t.Context(), node1); asIronic(t, err).Status != http.StatusUnauthorized ||
		strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a password of yesterday: %v", err)
	}
	if err := os.WriteFile(c.PasswordFile, []byte(password), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Node(t.Context(), node1); err != nil {
		t.Errorf("the new password: %v", err)
	}
}

// identity is a Keystone with an Ironic that takes its newest token.
type identity struct {
	*httptest.Server
	mu       sync.Mutex
	logins   int    // guarded by mu
	asked    string // body of the last login; guarded by mu
	status   int    // of logins; guarded by mu
	services string // the catalogue; guarded by mu
	expired  bool   // the newest token too; guarded by mu
}

func startIdentity(t *testing.T) *identity {
	t.Helper()
	k := &identity{status: http.StatusCreated}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v3/auth/tokens", k.logIn)
	mux.HandleFunc("/ironic/v1/", k.serveIronic)
	k.Server = httptest.NewServer(mux)
	t.Cleanup(k.Close)
	k.services = k.service("internal", "R1", k.URL+"/ironic") + "," + k.service("public", "R1", "http://192.0.2.1")
	return k
}

func (k *identity) service(kind, region, url string) string {
	return fmt.Sprintf(
		`{"type": "baremetal", "name": "ironic", "endpoints": [{"interface": %q, "region": %q, "region_id": %q, "url": %q}]}`,
		kind, region, region, url)
}

func (k *identity) logIn(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client broke off
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.logins++
	k.asked, k.expired = string(body), false
	w.Header().Set("X-Subject-Token", fmt.Sprintf("token-%d", k.logins))
	w.WriteHeader(k.status)
	if k.status != http.StatusCreated {
		_, _ = io.WriteString(w, `{"error": {"code": 401, "message": "The request you have made requires authentication."}}`)
		return
	}
	_,
		_ = fmt.Fprintf(w,
		`{"token": {"expires_at": "2030-01-01T00:00:00.000000Z", "catalog": [{"type": "compute", "endpoints": []}, %s]}}`,
		k.services)
}

func (k *identity) serveIronic(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.expired || r.Header.Get("X-Auth-Token") != fmt.Sprintf("token-%d", k.logins) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	_, _ = io.WriteString(w, aNode) // the client checks
}

func (k *identity) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

func (k *identity) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.logins
}

func (k *identity) conf() config.Ironic {
	c := conf("")
	c.AuthType, c.Username, c.Password = "keystone", "trivet", "s3cret"
	c.Keystone = config.Keystone{AuthURL: k.URL + "/v3", Project: "service", UserDomain: "Users",
		ProjectDomain: "Projects"}
	return c
}

func TestKeystone(t *testing.T) {
	k := startIdentity(t)
	c := dial(t, k.conf())
	for range 3 {
		if _, err := c.Node(t.Context(), node1); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Ping(t.Context()); err != nil || k.count() != 1 {
		t.Errorf("%d logins, %v", k.count(), err)
	}
	var asked, want any
	if err := json.Unmarshal([]byte(k.asked), &asked); err != nil {
		t.Fatal(err)
	}
	const body = `{"auth": {"identity": {"methods": ["password"], "password": {"user": {"name": "trivet", "password": "s3cret", "domain": {"name": "Users"}}}},
		"scope": {"project": {"name": "service", "domain": {"name": "Projects"}}}}}`
	if err := json.Unmarshal([]byte(body), &want); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(asked) != fmt.Sprint(want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
}

func TestTokenExpires(t *testing.T) {
	k := startIdentity(t)
	c := dial(t, k.conf())
	for want := 1; want < 4; want++ {
		k.set(func() { k.expired = true })
		if err := c.Ping(t.Context()); err != nil || k.count() != want {
			t.Errorf("%d logins, want %d: %v", k.count(), want, err)
		}
	}
	k.set(func() { k.expired = true })
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			if _, err := c.Node(t.Context(), node1); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := k.count(); n != 4 {
		t.Errorf("50 callers logged in %d times", n-3)
	}
}

func TestCatalogue(t *testing.T) {
	k := startIdentity(t)
	here, nowhere := k.URL+"/ironic/", "http://192.0.2.1"
	for _, test := range []struct{ name, services, region, endpoint, want string }{
		{"public alone", k.service("public", "R1", here), "", "", ""},
		{"one region of two", k.service("internal", "R1", nowhere) + "," + k.service("internal", "R2", here), "R2", "", ""},
		{"the same twice", k.service("internal", "R1", here) + "," + k.service("internal", "R2", here), "", "", ""},
		{"written", k.service("internal", "R1", nowhere), "", here + "v1", ""},
		{"written, no catalogue", k.service("internal", "R1", nowhere), "R9", here, ""},
		{"two regions", k.service("internal", "R1", nowhere) + "," + k.service("internal", "R2", here), "", "",
			"the catalogue of Keystone has 2 internal endpoints of type baremetal; write ironic.region or ironic.endpoint"},
		{"another region", k.service("internal", "R1", here), "R2", "",
			"the catalogue of Keystone has no endpoint of type baremetal; check ironic.region"},
		{"admin alone", k.service("admin", "R1", here), "", "", "the catalogue of Keystone has no endpoint"},
		{"no URL", k.service("internal", "R1", "/ironic"), "", "",
			`the catalogue of Keystone has "/ironic" where the URL of Ironic should be`},
	} {
		t.Run(test.name, func(t *testing.T) {
			k.set(func() { k.services = test.services })
			c := k.conf()
			c.Keystone.Region, c.Endpoint = test.region, test.endpoint
			client := dial(t, c)
			_, err := client.Node(t.Context(), node1)
			if err != nil && (!Unjudged(err) || Unknown(err)) {
				t.Errorf("login-unknown: %v", err)
			}
			if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(asIronic(t, err).Error(), test.want) {
				t.Errorf("%v", err)
			}
			if err := client.Ping(t.Context()); (err == nil) != (test.want == "") {
				t.Errorf("ping: %v", err)
			}
		})
	}
}

func TestKeystoneFails(t *testing.T) {
	k := startIdentity(t)
	for status, logins := range map[int]int{503: 3, 401: 1, 404: 1, 500: 1} {
		k.set(func() { k.status, k.logins = status, 0 })
		client := dial(t, k.conf())
		_, err := client.Node(t.Context(), node1)
		if e := asIronic(t, err); e.Status != status || k.count() != logins || !strings.Contains(e.Call, "/v3/auth/tokens") ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%d: %d logins, %q: %d %v", status, k.count(), e.Call, e.Status, err)
		}
		if err := client.Ping(t.Context()); err == nil {
			t.Errorf("%d: ping succeeds", status)
		}
	}
	k.set(func() { k.status = http.StatusCreated })
	k.Close()
	_, err := dial(t, k.conf()).Node(t.Context(), node1)
	if e := asIronic(t, err); !Unjudged(err) || !strings.HasPrefix(e.Error(), "no answer from Keystone: ") {
		t.Errorf("%v", err)
	}
}

// TestRefusedCredentialsRest counts how often a wrong password is shown to a
// Keystone that may lock the user.
func TestRefusedCredentialsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logins := 0
		conf := config.Ironic{AuthType: "keystone", Username: "u", Password: "p",
			Keystone: config.Keystone{AuthURL: "http://k", Project: "p", UserDomain: "d", ProjectDomain: "d"}}
		s, err := newSessions(conf, network(func(*http.Request) (*http.Response, error) {
			logins++
			return says(answer{401, "{}"}), nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		c := (&line{sessions: s, retries: 5, timeout: pingTimeout}).client(nil)
		for i := range 3 {
			for range 100 {
				_, err := c.Node(t.Context(), node1)
				if e := asIronic(t, err); e.Status != http.StatusUnauthorized {
					t.Fatal(e)
				}
			}
			if logins != i+1 {
				t.Errorf("%d logins, want %d", logins, i+1)
			}
			time.Sleep(servicecreds.RefusalRests)
		}
	})
}
