//go:build e2e

package attacktest

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/operators"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/test/testenv"
)

const (
	// closedWithin is how soon after its removal a peer's open connections are to end.
	closedWithin = 8 * time.Second
	// closedAtLast is when they must have ended: sooner than idle connections do, for
	// whose end nobody needs to be removed.
	closedAtLast = 30 * time.Second
)

// The credentials of a removed peer command nobody, by no protocol, also on
// connections that were open before; nor do a member's own in another's name.
func TestRemovedPeerCommandsNoPeer(t *testing.T) {
	hosts := newCluster(t, 4)
	members, gone := hosts[:3], hosts[3]
	until(t, "every peer has the whole state", func() bool {
		return !slices.ContainsFunc(hosts, func(h *host) bool { return len(h.view().Members()) != 4 })
	})
	server, cred := gone.address(), gone.cred
	// Open before the removal, one for each protocol and victim.
	early := newThief(t, cred)
	var open []net.Conn
	for _, m := range members {
		var resp raft.AppendEntriesResponse
		// A term of the past changes nothing and keeps the connection in the pool.
		if err := early.net.AppendEntries(raft.ServerID(m.id.ID), raft.ServerAddress(m.address()),
			&raft.AppendEntriesRequest{RPCHeader: claim(server), Term: 1}, &resp); err != nil {
			t.Fatalf("a member's own heartbeat: %v", err)
		}
		for _, protocol := range []string{"trivet-raft", "h2"} {
			open = append(open, early.open(t, m, protocol))
		}
	}
	gone.stop()
	until(t, "a leader is there without the peer", func() bool { return led(members) != nil })
	members[0].must(membership.RemoveMember{ID: gone.id.ID, Force: true})
	until(t, "every peer has applied the removal", func() bool {
		return !slices.ContainsFunc(members, func(h *host) bool { return len(h.view().Members()) != 3 })
	})

	removed := time.Now()
	for _, conn := range open {
		if !closes(t, conn) {
			t.Errorf("removed-is-cut-off: a connection of the removed peer is open %v after its removal", closedAtLast)
			break // each takes as long
		}
	}
	testenv.Took(t, "attack.removed_is_cut_off", time.Since(removed), closedWithin)
	late := newThief(t, cred)
	for _, m := range members {
		for what, with := range map[string]*thief{"connections of before": early, "new connections": late} {
			for _, as := range []string{server, members[0].address()} {
				if taken := with.command(t, m, as); len(taken) > 0 {
					t.Errorf("removed-commands-nobody: %s took %v from the removed peer by %s, in the name of %s", m.Config.Name,
						taken, what, as)
				}
			}
		}
		for path, method := range map[string]string{
			"/peer/v1/read-index": http.MethodGet, "/peer/v1/age": http.MethodGet, "/peer/v1/proposals": http.MethodPost,
			"/peer/v1/join":              http.MethodPost,
			"/peer/v1/rights/" + m.id.ID: http.MethodGet, "/v1/status": http.MethodGet,
		} {
			if status, err := late.call(m, method, path); err != nil || status != http.StatusForbidden {
				t.Errorf("removed-calls-nobody: %s %s of the removed peer: %d, %v; want 403", method, path, status, err)
			}
		}
	}

	insider := newThief(t, members[1].cred)
	if taken := insider.command(t, members[0], members[2].address()); len(taken) > 0 {
		t.Errorf("identity-bound: %v were taken from a member in another's name", taken)
	}
	members[0].must(settings.PutSetting{Key: "after", Value: "yes"})
	until(t, "all peers go on under one leader", func() bool { return led(members) != nil })
	for _, m := range members {
		m.unmoved()
	}
}

// unmoved wants that no request of command had an effect on a peer.
func (h *host) unmoved() {
	h.t.Helper()
	if v, ok := h.view().Setting("forged"); ok {
		h.t.Errorf("%s applied a forged command: %+v", h.Config.Name, v)
	}
	if term := h.peer.Core().Store.Stats().Term; term >= 100 {
		h.t.Errorf("%s was moved to term %d", h.Config.Name, term)
	}
}

// closes reports whether the other end closes a connection within closedAtLast.
func closes(t *testing.T, conn net.Conn) bool {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(closedAtLast)); err != nil {
		t.Fatal(err)
	}
	_, err := io.Copy(io.Discard, conn) // HTTP/2 has sent its settings
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// led returns the one leader that all peers name, nil if they differ.
func led(hosts []*host) *host {
	var leader *host
	for _, h := range hosts {
		srv, ok := h.peer.Core().Store.Leader()
		if !ok {
			return nil
		}
		i := slices.IndexFunc(hosts, func(other *host) bool { return other.id.ID == srv.ID })
		if i < 0 || leader != nil && leader != hosts[i] {
			return nil
		}
		leader = hosts[i]
	}
	return leader
}

// A peer that was down while another was removed takes nothing from it either: it
// asks the others before it believes its own old list of members.
func TestPeerThatMissedTheRemoval(t *testing.T) {
	hosts := newCluster(t, 4)
	members, gone, away := hosts[:3], hosts[3], hosts[2]
	until(t, "every peer has the whole state", func() bool {
		return !slices.ContainsFunc(hosts, func(h *host) bool { return len(h.view().Members()) != 4 })
	})
	away.stop()
	gone.stop() // two of four are left: the removal must not wait for a majority of them
	away.start()
	until(t, "three of four follow a leader", func() bool { return led(members) != nil })
	away.stop()
	gone.start()
	until(t, "a leader", func() bool { return led([]*host{members[0], members[1], gone}) != nil })
	members[0].must(membership.RemoveMember{ID: gone.id.ID, Force: true})
	until(t, "raft has followed", func() bool { return voters(members[0]) == 3 && led(members[:2]) != nil })
	gone.stop()

	// The peer comes back with its old state. The thief's request may be the first
	// that it hears.
	thief := newThief(t, gone.cred)
	away.start()
	if taken := thief.command(t, away, gone.address()); len(taken) > 0 {
		t.Errorf("missed-removal: %s took %v from a peer that was removed while it was down", away.Config.Name, taken)
	}
	until(t, "it has caught up", func() bool { return led(members) != nil && len(away.view().Members()) == 3 })
}

// Operators speak no raft, and an operator whose certificates are revoked loses
// open connections, too.
func TestRevokedOperatorIsCutOff(t *testing.T) {
	h := newCluster(t, 1)[0]
	secrets := h.view().Secrets()
	ca, err := pki.ParseCA(secrets.CACert, secrets.CAKey)
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.NewKey(h.Random)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Sign(h.Random, time.Now(),
		pki.Order{Identity: pki.OperatorIdentity(h.id.Cluster, "ann"), PublicKey: &key.PublicKey, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	cred, err := pki.NewCredentials(cert, secrets.CACert, key)
	if err != nil {
		t.Fatal(err)
	}
	ann := newThief(t, cred)
	if status, err := ann.call(h, http.MethodGet, "/v1/status"); err != nil || status != http.StatusOK {
		t.Fatalf("an operator's call: %d, %v", status, err)
	}
	if taken := ann.command(t, h, h.address()); len(taken) > 0 {
		t.Errorf("raft took %v from an operator", taken)
	}
	conn := ann.open(t, h, "h2")
	now := time.Now()
	h.must(operators.RevokeOperator{Name: "ann", UpTo: now.Add(time.Second).Unix(), Ends: now.Add(time.Hour).Unix()})
	if !closes(t, conn) {
		t.Errorf("revoked-is-cut-off: the operator's connection is open %v after the revocation", closedAtLast)
	}
	testenv.Took(t, "attack.revoked_is_cut_off", time.Since(now), closedWithin)
	if status, err := ann.call(h, http.MethodGet, "/v1/status"); err == nil && status != http.StatusUnauthorized {
		t.Errorf("a revoked operator's call: %d, want 401", status)
	}
}
