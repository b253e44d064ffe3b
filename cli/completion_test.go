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
	"github.com/trivet-ha/trivet/test/testwait"
)

// socketPeer answers on a unix socket as a peer does.
func socketPeer(t *testing.T) (socket string) {
	t.Helper()
	return answeringPeer(t, map[string]any{
		"/v1/peers": []api.Peer{{Name: "h1", Address: "192.0.2.1:7350", Leader: true},
			{Name: "h2", Address: "192.0.2.2:7350", Voter: true}, {Name: "h3\x1b[31m"}},
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
func completed(t *testing.T, line string, more ...string) []string {
	t.Helper()
	var out, talk bytes.Buffer
	p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &out, Err: &talk, Wall: time.Now,
		Env: []string{"TRIVET_CONFIG=" + filepath.Join(t.TempDir(), "none.yaml")}}}
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
	for line, want := range map[string]string{
		"remove ":                         "h1 h2",
		"remove h1 ":                      "",
		"maintenance on ":                 "h1 h2",
		"maintenance ":                    "off on",
		"failover-safe h":                 "h1 h2",
		"transfer h2":                     "h2",
		"members promote ":                "h1 h2",
		"members set-address ":            "h1 h2",
		"members set-address h1 ":         "",
		"introspection list --state ":     "aborting enrolling error finished processing reapplying starting waiting",
		"serve --firewall-driver ":        "auto dnsmasq iptables nftables noop",
		"serve --log-level ":              "debug error info warn",
		"serve --failover-mode ":          "noobaa safe",
		"serve --lease-enabled ":          "false true",
		"serve --firewall-interface l":    "lo",
		"serve --floating-ip-interface l": "lo",
		"status --color ":                 "always auto never",
		"status -o ":                      "json name table wide yaml",
		"status --peer 192.0.2.1":         "192.0.2.1:7350",
		"status ":                         "",
		"introspection start ":            "",
		"help token ":                     "create list revoke rotate",
		"failover release worker-1 --to ": "cancelled fencing",
		"haconfig manifest --via ":        "endpoints floating-ip",
	} {
		got := completed(t, "--socket "+socket+" "+line)
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
	synctest.Test(t, func(t *testing.T) {
		silent := func(ctx context.Context) []string {
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
