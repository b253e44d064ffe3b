package app

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/test/testwait"
)

// TestLeaveOfAPeerThatWasRemoved asks a peer to leave that hears, before or
// while it answers, that it is no member: it has left, and says so at once.
func TestLeaveOfAPeerThatWasRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		before bool
		why    error // of the first reason to stop
	}{
		"before": {true, ErrRemoved},
		"while":  {false, ErrLeft},
	} {
		t.Run(name, func(t *testing.T) {
			peer, err := New(t.Context(), newStartable(t).o)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := peer.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), testwait.Bound(testwait.Limit))
			defer cancel()
			if err := peer.Ready(ctx); err != nil {
				t.Fatal(err)
			}
			peer.core.Store.Mute(true) // the log answers this peer no more
			if c.before {
				peer.Removed()
			}
			left := make(chan error, 1)
			go func() { left <- peer.Admin().Membership.Leave(ctx, true) }()
			if !c.before {
				peer.Proposed(true) // as when its own removal is on its way
				peer.Removed()
			}
			if err := testwait.Receive(t, left, "the answer to the leave"); err != nil || !peer.Left() {
				t.Errorf("left %v: %v", peer.Left(), err)
			}
			if why := testwait.Receive(t, peer.Ended(), "the reason to stop"); !errors.Is(why, c.why) {
				t.Errorf("it ends: %v, want %v", why, c.why)
			}
		})
	}
}

// TestOnlyMemberLeaves: a cluster that was founded by mistake ends with its only member, when
// that is said, so that its host may join another one.
func TestOnlyMemberLeaves(t *testing.T) {
	peer, err := New(t.Context(), newStartable(t).o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := peer.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Bound(testwait.Limit))
	defer cancel()
	if err := peer.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	var refused *api.Error
	if err := peer.Admin().Membership.Leave(ctx, false); !errors.As(err, &refused) ||
		!strings.Contains(refused.Hint, "'trivet leave --force'") || peer.Left() {
		t.Errorf("only-member-leaves: unasked: %v, left: %t", err, peer.Left())
	}
	if err := peer.Admin().Membership.Leave(ctx, true); err != nil || !peer.Left() {
		t.Errorf("only-member-leaves: with force: %v, left: %t", err, peer.Left())
	}
}
