package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/test/testwait"
)

// socketPeer answers on a unix socket as a peer does.
func socketPeer(t *testing.T) (socket string) {
	t.Helper()
	return answeringPeer(t, map[string]any{
		"/v1/peers":    []api.Peer{{Name: "h1", Address: "192.0.2.1:7350", Leader: true}, {Name: "h2", Address: "192.0.2.2:7350", Voter: true}, {Name: "h3\x1b[31m"}},
		"/v1/nodes":    map[string]any{"nodes": []client.NodeName{{UUID: id("n1"), Name: "n1"}, {UUID: id("n2")}}},
		"/v1/failover": api.Failover{Nodes: []api.KubeNode{{Cluster: "prod", Name: "worker-1", Ready: "False"}}},
	})
}

// answeringPeer answers on a unix socket with a value for each path.
func answeringPeer(t *testing.T, values map[string]any) (socket string) {
	t.Helper()
	mux := http.NewServeMux()
	for path, value := range values {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if err := json.NewEncoder(w).Encode(value); err != nil {
				t.Errorf("answer: %v", err)
			}
		})
	}
	socket = filepath.Join(t.TempDir(), "peer.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: mux}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := testwait.Receive(t, done, "the end of the peer on the socket"); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	return socket
}

// completed asks as a shell does, and returns the words that are offered.
func completed(t *testing.T, transport http.RoundTripper, line string, more ...string) []string {
	t.Helper()
	var out, talk bytes.Buffer
	p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &out, Err: &talk, Wall: time.Now, Transport: transport, Env: []string{"TRIVET_CONFIG=" + filepath.Join(t.TempDir(), "none.yaml")}}}
	words := append([]string{cobra.ShellCompRequestCmd}, strings.Fields(line)...)
	if strings.HasSuffix(line, " ") {
		words = append(words, "")
	}
	if code := p.run(t.Context(), append(words, more...)); code != term.ExitOK {
		t.Fatalf("%s: exit %d, %s", line, code, talk.String())
	}
	var offered []string
	for line := range strings.Lines(out.String()) {
		word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !strings.HasPrefix(word, ":") {
			offered = append(offered, word)
		}
	}
	return offered
}

func TestCompletion(t *testing.T) {
	socket := socketPeer(t)
	web := newFakeAPI()
	web.add("n1", time.Hour)
	web.add("wired", time.Hour)
	network := hosts{"127.0.0.1:5050": web}
	for line, want := range map[string]string{
		"remove ":                             "h1 h2",
		"remove h1 ":                          "",
		"maintenance on ":                     "h1 h2",
		"maintenance ":                        "off on",
		"failover-safe h":                     "h1 h2",
		"transfer h2":                         "h2",
		"members promote ":                    "h1 h2",
		"members set-address ":                "h1 h2",
		"members set-address h1 ":             "",
		"failover show ":                      "worker-1",
		"firewall explain ":                   "n1 " + id("n2"),
		"introspection start ":                "wired n1",
		"introspection start n1 ":             "wired",
		"introspection show w":                "wired",
		"introspection interface show ":       "wired n1",
		"introspection interface show wired ": "eth0 eth1",
		"introspection list --state ":         "aborting enrolling error finished processing reapplying starting waiting",
		"serve --firewall-driver ":            "auto dnsmasq iptables nftables noop",
		"serve --log-level ":                  "debug error info warn",
		"serve --failover-mode ":              "noobaa safe",
		"serve --lease-enabled ":              "false true",
		"serve --firewall-interface l":        "lo",
		"serve --floating-ip-interface l":     "lo",
		"status --color ":                     "always auto never",
		"status -o ":                          "json name table wide yaml",
		"status --peer 192.0.2.1":             "192.0.2.1:7350",
		"status ":                             "",
		"help token ":                         "create list revoke rotate",
		"man trivet-fire":                     "trivet-firewall",
		"failover release worker-1 --to ":     "cancelled fencing",
		"haconfig manifest --via ":            "endpoints floating-ip",
	} {
		got := completed(t, network, "--socket "+socket+" "+line)
		wanted := strings.Fields(want)
		slices.Sort(got)
		slices.Sort(wanted)
		if !slices.Equal(got, wanted) {
			t.Errorf("trivet %s<Tab>: %q, want %q", line, got, wanted)
		}
	}
}

// TestCompletionIsBounded: a peer that does not answer costs the one who presses
// Tab less than a second, and completes nothing.
func TestCompletionIsBounded(t *testing.T) {
	virtual(t, func(t *testing.T) {
		api := newFakeAPI()
		api.before = func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		}
		began := time.Now()
		if got := completed(t, hosts{"127.0.0.1:5050": api}, "introspection start "); len(got) > 0 {
			t.Errorf("offered %q", got)
		}
		if took := time.Since(began); took > completionLimit+100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		silent := func(ctx context.Context, _ *cobra.Command, _ []string) []string {
			<-ctx.Done()
			return nil
		}
		began := time.Now()
		completion{}.bounded(silent)(&cobra.Command{}, nil, "")
		if took := time.Since(began); took != completionLimit {
			t.Errorf("a peer that is silent: it took %v", took)
		}
	})
}
