package cluster

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
)

// leaving runs 'trivet leave' on a host with a data directory; port is --peer, through nil by it.
func leaving(t *testing.T, dir, port string, through *term.Peer) (says string, err error) {
	t.Helper()
	var talk bytes.Buffer
	on := &term.Terminal{Out: &talk, Err: &talk, Wall: time.Now, Env: []string{"TRIVET_CONFIG=/dev/null"}}
	flags := pflag.NewFlagSet("trivet", pflag.ContinueOnError)
	set := options.New(on, flags)
	words := []string{"--data-dir", dir, "--socket", filepath.Join(dir, "none"), "--peer", port}
	if err := flags.Parse(words); err != nil {
		t.Fatal(err)
	}
	peer := term.Chosen(set.Peer)
	if through != nil {
		peer = *through
	}
	err = leave(t.Context(), on, peer, set, false)
	return talk.String(), err
}

// TestLeaveOfAPeerThatIsNotReached: whether a peer lives on this host says nothing of another one.
func TestLeaveOfAPeerThatIsNotReached(t *testing.T) {
	says, err := leaving(t, t.TempDir(), "192.0.2.2", nil) // without a certificate
	if term.ExitOf(err) != term.ExitUsage || strings.Contains(says, "nothing to leave") {
		t.Errorf("leave-elsewhere: exit %d, %v:\n%s", term.ExitOf(err), err, says)
	}
	says, err = leaving(t, t.TempDir(), "", nil)
	if err != nil || !strings.Contains(says, "nothing to leave") {
		t.Errorf("leave-elsewhere: where no peer lives: %v:\n%s", err, says)
	}
}

// TestLeaveOfAPeerOnAnotherHost: its data directory has a path that this host has, too, and is not looked at.
func TestLeaveOfAPeerOnAnotherHost(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, ".left-1", "peer") // a peer that left here: who opens the directory sweeps it
	for _, path := range []string{own, filepath.Join(dir, "peer")} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		var s api.Status
		s.Name, s.Cluster, s.Directory = "h2", "c", dir
		if err := json.NewEncoder(w).Encode(s); err != nil {
			t.Errorf("answer: %v", err)
		}
	})
	mux.HandleFunc("POST /v1/leave", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: mux}
	go func() { _ = srv.Serve(ln) }() // until it is closed
	defer srv.Close()
	h2 := term.OnSocket(socket) // as if by its port
	says, err := leaving(t, dir, "192.0.2.2", &h2)
	if err != nil || !strings.Contains(says, "h2 has left cluster c") || strings.Contains(says, "log is wiped") {
		t.Errorf("leave-elsewhere: %v:\n%s", err, says)
	}
	if _, err := os.Stat(own); err != nil {
		t.Errorf("leave-elsewhere: this host's data directory was opened: %v", err)
	}
}
