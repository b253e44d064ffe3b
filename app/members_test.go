package app

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/test/testwait"
)

// A host that comes back alone after a power cut of the whole site has applied nothing
// of its log. It names the others and itself, and knows where to ask the others:
// that stands in the log.
func TestNamesBeforeTheLogIsApplied(t *testing.T) {
	s := newStartable(t)
	others := []membership.Member{
		{ID: "3cb18f0e-2a4e-4f0a-9f6e-000000000002", Name: "h2", Address: "127.0.0.2:1", Version: fsm.Version},
		{ID: "3cb18f0e-2a4e-4f0a-9f6e-000000000003", Name: "h3", Address: "127.0.0.3:7350", Version: fsm.Version},
	}
	for _, run := range []string{"the last", "this"} {
		peer, err := New(t.Context(), s.o)
		if err != nil {
			t.Fatal(err)
		}
		if run == "the last" {
			putMembers(t, peer, others)
		} else {
			namesOthers(t, peer)
		}
		if err := peer.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// putMembers makes members of hosts that do not exist, one of which moves.
func putMembers(t *testing.T, peer *Peer, members []membership.Member) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Bound(testwait.Limit))
	defer cancel()
	if err := peer.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	for _, c := range []fsm.Command{membership.PutMember{Member: members[0]}, membership.PutMember{Member: members[1]},
		membership.MoveMember{Peer: members[1].ID, Address: "127.0.0.3:1"}} {
		if res, err := peer.core.Session.Do(ctx, "", c); err != nil || res.Code != fsm.OK {
			t.Fatalf("%v: %+v, %v", fsm.KindOf(c), res, err)
		}
	}
	testwait.Within(t, testwait.Limit, "raft knows the members", func() error {
		if n := len(peer.core.Store.Servers()); n != 1+len(members) {
			return fmt.Errorf("it knows %d servers", n)
		}
		return nil
	})
}

// namesOthers demands the names of a state that knows no member.
func namesOthers(t *testing.T, peer *Peer) {
	t.Helper()
	nothing := fsm.New().View()
	var names []string
	for _, row := range peer.self.Members.Peers(peer.self.Members.Hearing(nothing), time.Now()) {
		names = append(names, row.Name)
	}
	if want := []string{"h1", "h2", "h3"}; !slices.Equal(names, want) {
		t.Errorf("names-on-the-disk: status shows %q, want %q", names, want)
	}
	var asked []string
	for _, m := range peer.self.Members.Others(nothing) {
		asked = append(asked, m.Name+" at "+m.Address)
	}
	if want := []string{"h2 at 127.0.0.2:1", "h3 at 127.0.0.3:1"}; !slices.Equal(asked, want) {
		t.Errorf("names-on-the-disk: doctor asks %q, want %q", asked, want)
	}
}
