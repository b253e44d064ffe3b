package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/test/testenv"
)

const hookPath = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/"

// registry is an API server with one registration.
type registry struct {
	name   string // of the registration; "" for none
	denies bool
	proxy  bool // what stands in front of it has no route to it
}

func (r *registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.proxy:
		http.Error(w, "default backend - 404", http.StatusNotFound)
	case r.denies:
		w.WriteHeader(http.StatusForbidden)
		// who asked may have gone
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))
	case req.Method != http.MethodDelete || r.name == "" || req.URL.Path != hookPath+r.name:
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
	default:
		if req.URL.Query().Get("dryRun") != "All" {
			r.name = ""
		}
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`))
	}
}

// TestHAConfigUninstall deletes the registration: by hand whoever lives, and on the
// removal of a package only with the last peer.
func TestHAConfigUninstall(t *testing.T) {
	self := api.Peer{Name: "h1", Self: true, Contact: api.Contact{Live: true}, Gossip: "alive"}
	heard := api.Peer{Name: "h2", Gossip: "alive"}
	linked := api.Peer{Name: "h2", Contact: api.Contact{Live: true}, Gossip: "unknown"}
	gone := api.Peer{Name: "h2", Gossip: "left"}
	refusing := testenv.RefusingAddress(t)
	listens := httptest.NewServer(http.NotFoundHandler()) // at the peers' port, and proves nothing
	defer listens.Close()
	open := listens.Listener.Addr().String()
	silent := func(address, gossip string) []api.Peer {
		return []api.Peer{self, {Name: "h2", Gossip: gossip, Address: address}, {Name: "h3", Gossip: "left"}}
	}
	for _, c := range []struct {
		name   string
		flags  string
		peers  []api.Peer // nil: the peer of this host does not run
		off    bool       // haconfig is not configured
		there  registry
		code   int
		says   string
		leaves bool
	}{
		{name: "by hand", there: registry{name: "trivet-haconfig"},
			says: "deleted MutatingWebhookConfiguration trivet-haconfig in cluster prod"},
		{name: "of a cluster", flags: "--cluster prod", there: registry{name: "trivet-haconfig"},
			says: "deleted MutatingWebhookConfiguration trivet-haconfig in cluster prod"},
		{name: "of a cluster that is none", flags: "--cluster test", code: term.ExitUsage,
			there: registry{name: "trivet-haconfig"}, says: `--cluster "test": haconfig has prod`, leaves: true},
		{name: "another name", flags: "--registration mine", there: registry{name: "mine"},
			says: "deleted MutatingWebhookConfiguration mine"},
		{name: "a dry run", flags: "--dry-run", there: registry{name: "trivet-haconfig"}, leaves: true,
			says: "-MutatingWebhookConfiguration trivet-haconfig"},
		{name: "a dry run without the right", flags: "--dry-run", there: registry{name: "trivet-haconfig", denies: true},
			code: term.ExitFailed, says: "kubectl delete mutatingwebhookconfiguration trivet-haconfig", leaves: true},
		{name: "a dry run where there is none", flags: "--dry-run",
			says: "registration in cluster prod: nothing would change"},
		{name: "a proxy has no route", there: registry{name: "trivet-haconfig", proxy: true}, code: term.ExitFailed,
			says: "kubectl delete mutatingwebhookconfiguration trivet-haconfig", leaves: true},
		{name: "there is none", says: "there is no MutatingWebhookConfiguration trivet-haconfig"},
		{name: "a right is missing", there: registry{name: "trivet-haconfig", denies: true}, code: term.ExitFailed,
			says: "kubectl delete mutatingwebhookconfiguration trivet-haconfig", leaves: true},
		{name: "not configured", off: true, code: term.ExitUsage, says: "--kubeconfig says which cluster is meant",
			there: registry{name: "trivet-haconfig"}, leaves: true},
		{name: "the last peer", flags: "--if-last", peers: []api.Peer{self, gone}, there: registry{name: "trivet-haconfig"},
			says: "deleted"},
		{name: "another host's peer is named", flags: "--if-last --peer 192.0.2.2", peers: []api.Peer{self, heard},
			there: registry{name: "trivet-haconfig"}, leaves: true},
		{name: "another peer is heard by gossip", flags: "--if-last", peers: []api.Peer{self, heard},
			there: registry{name: "trivet-haconfig"}, leaves: true},
		{name: "another peer is heard by the leader", flags: "--if-last", peers: []api.Peer{self, linked},
			there: registry{name: "trivet-haconfig"}, leaves: true},
		{name: "another peer may run elsewhere", flags: "--if-last", peers: silent(open, "dead"),
			there: registry{name: "trivet-haconfig"}, code: term.ExitFailed, leaves: true,
			says: "peer h2 may run: "},
		{name: "another peer was not heard yet", flags: "--if-last", peers: silent(open, "unknown"),
			there: registry{name: "trivet-haconfig"}, code: term.ExitFailed, leaves: true,
			says: "kubectl delete mutatingwebhookconfiguration trivet-haconfig"},
		{name: "the host of another peer has none", flags: "--if-last", peers: silent(refusing, "dead"),
			there: registry{name: "trivet-haconfig"}, says: "deleted"},
		{name: "it is not known", flags: "--if-last", there: registry{name: "trivet-haconfig"}, code: term.ExitFailed,
			says: "if this was the last peer: kubectl delete mutatingwebhookconfiguration", leaves: true},
		{name: "a host without it", flags: "--if-last", off: true, peers: []api.Peer{self},
			there: registry{name: "trivet-haconfig"}, leaves: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(&c.there)
			defer server.Close()
			dir := t.TempDir()
			kubeconfig, file, socket := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "trivet.yaml"),
				filepath.Join(dir, "none")
			text := strings.Replace(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: "URL"}}], users: [{name: a, user: {}}]}`, "URL", server.URL, 1)
			conf := "haconfig: {kubeconfigs: [prod=" + kubeconfig + "]}\n"
			if c.off {
				conf = "{}\n"
			}
			for name, content := range map[string]string{kubeconfig: text, file: conf} {
				if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.peers != nil {
				socket = answeringPeer(t, map[string]any{"/v1/peers": c.peers})
			}
			var out, talk bytes.Buffer
			p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &out, Err: &talk}}
			code := p.run(t.Context(),
				append([]string{"--config", file, "--socket", socket, "haconfig", "uninstall"}, strings.Fields(c.flags)...))
			said := out.String() + talk.String()
			if code != c.code || !strings.Contains(said, c.says) || c.says == "" && said != "" {
				t.Errorf("haconfig-uninstall: code %d, want %d, and %q:\n%s", code, c.code, c.says, said)
			}
			if (c.there.name != "") != c.leaves {
				t.Errorf("haconfig-uninstall: the registration is %q", c.there.name)
			}
		})
	}
}

// TestHAConfigUninstallOfSeveral deletes it where it can: a cluster that is away keeps
// it in no other.
func TestHAConfigUninstallOfSeveral(t *testing.T) {
	there := registry{name: "trivet-haconfig"}
	server := httptest.NewServer(&there)
	defer server.Close()
	dir := t.TempDir()
	conf := "haconfig: {kubeconfigs: [away=" + filepath.Join(dir, "away") + ", here=" + filepath.Join(dir, "here") + "]}\n"
	for name, url := range map[string]string{"away": "http://127.0.0.1:1", "here": server.URL} {
		text := strings.Replace(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: "URL"}}], users: [{name: a, user: {}}]}`, "URL", url, 1)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "trivet.yaml")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, talk bytes.Buffer
	p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &out, Err: &talk}}
	code := p.run(t.Context(), []string{"--config", file, "haconfig", "uninstall"})
	if said := out.String() + talk.String(); code == 0 || there.name != "" || !strings.Contains(said, "in cluster away") ||
		!strings.Contains(said, "deleted MutatingWebhookConfiguration trivet-haconfig in cluster here") {
		t.Errorf("uninstall-of-the-others: code %d, %q:\n%s", code, there.name, said)
	}
}
