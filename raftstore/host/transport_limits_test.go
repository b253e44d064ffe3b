//lint:file-ignore SA1019 an attacker fills the deprecated names of a sender, too

package host

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// A request reaches raft only if every name that it gives its sender is the one
// that the connection proved, whatever kind it is. The bare network proves "a".
func TestRequestsAreOfTheConnectionsPeer(t *testing.T) {
	forged := raft.RPCHeader{ID: []byte("c"), Addr: []byte("c@127.0.0.1:3")}
	honest := raft.RPCHeader{ID: []byte("a"), Addr: []byte("a@127.0.0.1:1")}
	half := raft.RPCHeader{ID: []byte("a"), Addr: []byte("c@127.0.0.1:3")}
	for name, c := range map[string]struct {
		command any
		ok      bool
	}{
		"entries":                      {&raft.AppendEntriesRequest{RPCHeader: honest}, true},
		"entries of another":           {&raft.AppendEntriesRequest{RPCHeader: forged}, false},
		"entries with another address": {&raft.AppendEntriesRequest{RPCHeader: half}, false},
		"entries of no member":         {&raft.AppendEntriesRequest{Leader: []byte("c@127.0.0.1:3")}, false},
		"entries of two": {&raft.AppendEntriesRequest{RPCHeader: honest, Leader: []byte("c@127.0.0.1:3")},
			false},
		"vote": {&raft.RequestVoteRequest{RPCHeader: honest, Candidate: []byte("a@127.0.0.1:1")},
			true},
		"vote for another": {&raft.RequestVoteRequest{RPCHeader: forged}, false},
		"vote for two": {&raft.RequestVoteRequest{RPCHeader: honest, Candidate: []byte("c@127.0.0.1:3")},
			false},
		"pre-vote for another": {&raft.RequestPreVoteRequest{RPCHeader: forged}, false},
		"snapshot of another":  {&raft.InstallSnapshotRequest{RPCHeader: forged}, false},
		"snapshot of two": {&raft.InstallSnapshotRequest{RPCHeader: honest, Leader: []byte("c@127.0.0.1:3")},
			false},
		"election called by another":    {&raft.TimeoutNowRequest{RPCHeader: forged}, false},
		"what is no request":            {"entries", false},
		"election called by the leader": {&raft.TimeoutNowRequest{RPCHeader: honest}, true},
	} {
		if err := sentBy("a", c.command); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Over real connections: a forged request is answered with an error and the
// connection ends; heartbeats, which take another way through raft, likewise.
func TestForgedRequestsDoNotReachRaft(t *testing.T) {
	far := listen(t)
	defer peer(t, far)()
	near := NewTransport(listen(t), "a@127.0.0.1:1", slog.New(slog.DiscardHandler))
	defer near.Close()
	to := raft.ServerAddress("b@" + far.Addr().String())
	forged := raft.RPCHeader{ID: []byte("c"), Addr: []byte("c@127.0.0.1:3")}
	for name, req := range map[string]*raft.AppendEntriesRequest{
		"heartbeat": {RPCHeader: forged, Term: 9},
		"entries": {RPCHeader: forged, Term: 9, PrevLogEntry: 3, PrevLogTerm: 2, LeaderCommitIndex: 4,
			Entries: []*raft.Log{{Index: 4, Term: 9}}},
	} {
		var resp raft.AppendEntriesResponse
		if err := near.AppendEntries("b", to, req, &resp); err == nil || resp.Success {
			t.Errorf("identity-bound: a forged %s was taken: %+v, %v", name, resp, err)
		}
	}
	var resp raft.AppendEntriesResponse
	honest := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ID: []byte("a"), Addr: []byte("a@127.0.0.1:1")},
		Term: 9}
	if err := near.AppendEntries("b", to, honest, &resp); err != nil || !resp.Success {
		t.Errorf("an honest request: %+v, %v", resp, err)
	}
}

// A peer that lost its right is refused on connections that are open already,
// in both directions.
func TestRefusedPeerOnOpenConnections(t *testing.T) {
	for name, refuse := range map[string]func(near, far *bare){
		"receiving": func(_, far *bare) { far.refused = "a" },
		"sending":   func(near, _ *bare) { near.refused = "b" },
	} {
		t.Run(name, func(t *testing.T) {
			far, here := listen(t), listen(t)
			refuse(here, far)
			defer peer(t, far)()
			near := NewTransport(here, "a@127.0.0.1:1", slog.New(slog.DiscardHandler))
			defer near.Close()
			var resp raft.RequestVoteResponse
			req := &raft.RequestVoteRequest{RPCHeader: raft.RPCHeader{ID: []byte("a"), Addr: []byte("a@127.0.0.1:1")}, Term: 2}
			err := near.RequestVote("b", raft.ServerAddress("b@"+far.Addr().String()), req, &resp)
			if err == nil || resp.Granted {
				t.Errorf("the vote was %+v, %v", resp, err)
			}
			if name == "sending" && !errors.Is(err, errRefused) {
				t.Errorf("got %v, want that nothing was sent", err)
			}
		})
	}
}

// Transports of connections end with them: nothing is left behind by a peer that
// connects and hangs up again and again.
func TestConnectionsLeaveNothingBehind(t *testing.T) {
	far := listen(t)
	transport := NewTransport(far, "b@"+far.Addr().String(), slog.New(slog.DiscardHandler))
	for range 50 {
		conn, err := far.DialPeer(t.Context(), "b", far.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// It waits for the connections; the test's own limit bounds it.
	if err := transport.Close(); err != nil && !strings.Contains(err.Error(), "closed") {
		t.Error(err)
	}
}
