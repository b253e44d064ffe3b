package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// errNoLeader is what its log says.
var errNoLeader = errors.New("no leader")

// voterAlone is h1, a voter that another host asks: its state, whether it hears of a leader and it admits
// the host, and what it gives it.
type voterAlone struct {
	state  *fsm.State
	led    bool
	admits bool
	share  func() cluster.Shared
	token  pki.JoinToken
}

func (a *voterAlone) View() fsm.View { return a.state.View() }

func (a *voterAlone) Read(context.Context) (fsm.View, error) {
	if !a.led {
		return fsm.View{}, errNoLeader
	}
	return a.state.View(), nil
}

func (a *voterAlone) Do(_ context.Context, _ string, c fsm.Command) (fsm.Result, error) {
	if !a.admits {
		return fsm.Result{}, errNoLeader // the leader is gone by then
	}
	data, err := fsm.Encode(fsm.Header{}, c)
	if err != nil {
		return fsm.Result{}, err
	}
	return a.state.Apply(fsm.Entry{Index: a.state.View().Index() + 1, Term: 1, Data: data}), nil
}

// serve opens h1's port.
func (a *voterAlone) serve(t *testing.T) (address string) {
	t.Helper()
	const id = "11111111-2222-4333-8444-555555555555"
	ca, err := pki.NewCA(id, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ca.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	if a.token, err = pki.NewJoinToken(ca.Hash(), time.Now().Add(time.Hour), rand.Reader); err != nil {
		t.Fatal(err)
	}
	a.state, err = fsm.Founded(fsm.Found{ClusterID: id, CACert: ca.CertPEM(), CAKey: key, GossipKey: make([]byte, 32),
		Member: membership.Member{ID: "id-h1", Name: "h1", Address: "192.0.2.1:7350", Version: fsm.Version},
		Join:   membership.AddJoinToken{ID: a.token.ID, Hash: a.token.SecretHash(), TTL: time.Hour}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	cred, err := cluster.Issue(ca, pki.PeerIdentity(id, "id-h1", 1), time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	end := pki.Endpoint{Credentials: func() *pki.Credentials { return cred }, Now: time.Now, Tolerance: pki.PeerTolerance}
	port, err := cluster.NewPort(t.Context(), "127.0.0.1:0", cluster.NewAccess(end, cluster.Known{}, quiet))
	if err != nil {
		t.Fatal(err)
	}
	joins := cluster.NewAdmission(admission.NewController(), a, a, time.Now, rand.Reader, quiet, a.share)
	mux := http.NewServeMux()
	mux.Handle("POST "+cluster.PathSettings, joins)
	mux.Handle("POST "+cluster.PathJoin, joins)
	if err := port.Serve(mux, admission.NewController(), quiet); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := port.Close(); err != nil {
			t.Error(err)
		}
	})
	return port.Addr().String()
}

// The peer of h3 is stopped, and the vote in its data the only one that h1 can get a leader
// with. 'trivet join --replace' through h1 leaves it there. Where the leader is lost between the question
// and the join, the data is aside, and the operator is told where.
func TestReplaceThroughAPeerWithoutALeader(t *testing.T) {
	for name, led := range map[string]bool{"no leader": false, "no leader any more": true} {
		t.Run(name, func(t *testing.T) {
			h1 := &voterAlone{led: led}
			address, root := h1.serve(t), t.TempDir()
			var out, talk bytes.Buffer
			p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &out, Err: &talk, Wall: time.Now,
				Random: rand.Reader, Env: []string{"TRIVET_CONFIG=" + filepath.Join(root, "trivet.yaml"), "TRIVET_DATA_DIR=" + root,
					"TRIVET_SOCKET=" + filepath.Join(root, "s")}}}
			if code := p.run(t.Context(), []string{"init", "--name", "h3", "--cluster-listen", "127.0.0.1:7350",
				"--gossip-listen", "127.0.0.1:7351", "--api-listen", "127.0.0.1:5050"}); code != 0 {
				t.Fatalf("%s", &talk)
			}
			talk.Reset()
			code := p.run(t.Context(), []string{"join", address, "--replace", "--token", h1.token.String()})
			if code != term.ExitNoLeader {
				t.Errorf("replace-needs-a-leader: exit %d:\n%s", code, &talk)
			}
			if _, err := os.Stat(filepath.Join(root, "peer", "peer.json")); (err == nil) == led {
				t.Errorf("replace-needs-a-leader: the data of the earlier peer: %v; it said:\n%s", err, &talk)
			}
			aside, err := filepath.Glob(filepath.Join(root, "before-join-*"))
			if err != nil || len(aside) == 1 != led || led && !strings.Contains(talk.String(), aside[0]) ||
				strings.Contains(talk.String(), "nothing was changed") {
				t.Errorf("aside-is-told: %v (%v); it said:\n%s", aside, err, &talk)
			}
		})
	}
}
