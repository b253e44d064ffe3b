package fsm

import (
	"testing"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// opening is the request of one process of a peer for a session in the place of another.
func opening(peer, boot string, instead fencing.Token) membership.OpenSession {
	return membership.OpenSession{Peer: peer, Boot: boot, Version: Version, Instead: &instead}
}

// A request to open a session that its process has given up, or that an earlier process
// sent, may arrive when the peer works in its next session. Its worker acts until that
// session's deadline, as it knows it: the log must not give its request to another before.
func TestLateOpeningEndsNoSession(t *testing.T) {
	for name, boot := range map[string]string{"of the same process": "now", "of an earlier process": "before"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.must(membership.PutMember{Member: member("b")})
			s := r.must(opening("b", "now", 0)).Token
			r.start(nodeA)
			claim := r.claim(s)
			late := r.do(Header{}, opening("b", boot, 0))
			if _, held := r.view().Claim(claim.Claim.Hold()); !held {
				t.Error("late-opening: the claim of a worker that may still act is free")
			}
			var has membership.Opened
			if err := late.Decode(&has); late.Code != Conflict || err != nil || has.Session != s {
				t.Errorf("late-opening: %v, and it is told of session %v (%v), not of %v", late.Code, has.Session, err, s)
			}
			// The process that runs names what it was told of.
			next := r.must(opening("b", "now", s)).Token
			if now, _ := r.view().SessionOf("b"); now.ID != next {
				t.Errorf("the peer has session %v, not %v", now.ID, next)
			}
		})
	}
}

// A session that has run out is named as little as one that never was.
func TestOpeningAfterTheEnd(t *testing.T) {
	r := newRig(t)
	r.must(membership.PutMember{Member: member("b")})
	s := r.must(opening("b", "one", 0)).Token
	r.pass(2 * membership.SessionTTL)
	r.refused(Conflict, Header{}, opening("b", "one", s))
	r.must(opening("b", "one", 0))
}

// Members of log version 2 read no opening that names a session.
func TestOlderMembersReadNoOpeningThatNamesASession(t *testing.T) {
	r := newRig(t)
	r.must(membership.PutMember{Member: member("b")})
	r.older("b", 2)
	if err := r.view().Admits(opening("a", "x", 0)); err == nil {
		t.Error("it is proposed")
	}
	if err := r.view().Admits(membership.OpenSession{Peer: "a", Boot: "x", Version: 2}); err != nil {
		t.Errorf("one that names none is not proposed: %v", err)
	}
}
