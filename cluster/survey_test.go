package cluster

import (
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/test/testenv"
)

// What a host answers that is asked from outside: a peer, of whatever incarnation,
// also with gossip alone; a host without one; a program that is none.
func TestSurveyTellsWhoRuns(t *testing.T) {
	f := newFixture(t)
	port, err := NewPort(t.Context(), "127.0.0.1:0",
		NewAccess(f.end(t, pki.PeerIdentity(clusterID, "h2", 7)), Known{}, slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	if err := port.Serve(http.NotFoundHandler(), admission.NewController(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := port.Close(); err != nil {
			t.Error(err)
		}
	})
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	go func() { // another program: it hangs up
		for {
			conn, err := other.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	free := testenv.FreePort(t)
	gossip := startGossip(t, "h5", 1)

	s := Surveyor{CAs: []*x509.Certificate{newFixture(t).ca.Certificate(), f.ca.Certificate()}}
	s.Gossip = gossipOptions("h1", testenv.FreePort(t), "", 2, 1)
	s.Gossip.Ring.Keys = s.Gossip.Ring.Keys[1:]
	asked, err := s.Ask(t.Context(), []membership.FormerMember{
		{ID: "runs", Address: port.Addr().String(), Gossip: free},
		{ID: "stopped", Address: free, Gossip: free},
		{ID: "other program", Address: other.Addr().String(), Gossip: free},
		{ID: "gossips", Address: free, Gossip: gossip.opts.Listen},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Presence{Running, Stopped, Silent, Running} {
		if asked[i].Presence != want {
			t.Errorf("members-are-asked: %s: %d, want %d: %s", asked[i].ID, asked[i].Presence, want, asked[i].Detail)
		}
	}
	s.CAs = s.CAs[:1]
	if asked, err := s.Ask(t.Context(),
		[]membership.FormerMember{{ID: "foreign", Address: port.Addr().String(), Gossip: free}}); err != nil ||
		asked[0].Presence != Silent {
		t.Errorf("a peer of another cluster: %+v, %v", asked, err)
	}
}
