package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// leftBehind is a host whose cluster was founded again elsewhere, and the port of
// the founder, which answers every rejoin with refusal.
func leftBehind(t *testing.T, refusal int) (dir, founder, token string) {
	t.Helper()
	const clusterID = "5f0c1f3e-0000-4000-8000-000000000001"
	ca, err := pki.NewCA(clusterID, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	issue := func(peer string, incarnation uint64) *pki.Credentials {
		cred, err := cluster.Issue(ca, pki.PeerIdentity(clusterID, peer, incarnation), time.Now(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return cred
	}
	served := issue("founder", 2)
	end := pki.Endpoint{Credentials: func() *pki.Credentials { return served }, Now: time.Now}
	quiet := slog.New(slog.DiscardHandler)
	port, err := cluster.NewPort(t.Context(), "127.0.0.1:0", cluster.NewAccess(end, cluster.Known{}, quiet))
	if err != nil {
		t.Fatal(err)
	}
	err = port.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, text := http.StatusUnauthorized, "the join token is not known"
		if r.URL.Path == cluster.PathRejoin {
			status, text = refusal, "peer h9 (h2 at 192.0.2.9:7350) has this ID, name or address"
		}
		w.WriteHeader(status)
		if err := json.NewEncoder(w).Encode(map[string]string{"error": text}); err != nil {
			t.Error(err)
		}
	}), admission.NewController(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := port.Close(); err != nil {
			t.Error(err)
		}
	})

	dir = filepath.Join(t.TempDir(), "data")
	data, err := datadir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	id := datadir.Identity{ID: "peer-h2", Name: "h2", Cluster: clusterID, Incarnation: 1, Address: "192.0.2.2:7350", Gossip: "192.0.2.2:7351"}
	secrets := datadir.Secrets{Credentials: issue("peer-h2", 1), Ring: cluster.Ring{Keys: [][]byte{make([]byte, 32)}}}
	if err := data.Create(id, secrets, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := data.Depart(datadir.Departure{How: datadir.DepartedSuperseded, Name: "h2", Cluster: clusterID, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := data.Close(); err != nil {
		t.Fatal(err)
	}
	joins, err := pki.NewJoinToken(ca.Hash(), time.Now().Add(time.Hour), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return dir, port.Addr().String(), joins.String()
}

// A host whose rejoin is refused for good gets out: the answer names a command,
// which works, and after it a join by token is not sent back to rejoin.
func TestRefusedRejoinNamesTheWayOut(t *testing.T) {
	for name, refusal := range map[string]int{"conflict": http.StatusConflict, "unknown": http.StatusUnauthorized} {
		t.Run(name, func(t *testing.T) {
			dir, founder, token := leftBehind(t, refusal)
			walk := func(args ...string) (code int, said string) {
				t.Helper()
				var out bytes.Buffer
				p := &program{Terminal: &term.Terminal{In: strings.NewReader(token), Out: &out, Err: &out, Env: []string{"TRIVET_CONFIG=/dev/null"}, Wall: time.Now, Random: rand.Reader}, exit: func(int) {}}
				code = p.run(context.Background(), append(args, "--data-dir", dir))
				return code, out.String()
			}
			join := []string{"join", founder, "--token-file", "-", "--name", "h2", "--cluster-listen", "127.0.0.1:7350", "--gossip-listen", "127.0.0.1:7351"}
			if code, said := walk(join...); code != term.ExitConflict || !strings.Contains(said, "'trivet rejoin'") {
				t.Errorf("join before: exit %d: %s", code, said)
			}
			for range 2 { // what it says does not change by being asked again
				code, said := walk("rejoin", founder)
				if code != term.ExitConflict || !strings.Contains(said, "has this ID, name or address") || !strings.Contains(said, "'trivet leave'") {
					t.Errorf("rejoin-ends: exit %d: %s", code, said)
				}
				if byRemoval := strings.Contains(said, "'trivet remove PEER'"); byRemoval != (refusal == http.StatusConflict) {
					t.Errorf("rejoin-ends: it names a removal, %v: %s", byRemoval, said)
				}
			}
			if code, said := walk("leave", "--socket", filepath.Join(t.TempDir(), "none.sock")); code != term.ExitOK || !strings.Contains(said, "wiped") {
				t.Errorf("rejoin-ends: leave: exit %d: %s", code, said)
			}
			if code, said := walk(join...); code != term.ExitNotAuthorised || !strings.Contains(said, "the join token is not known") {
				t.Errorf("rejoin-ends: join: exit %d: %s", code, said) // the founder was asked, and has no such token
			}
		})
	}
}
