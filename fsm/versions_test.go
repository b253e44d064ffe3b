package fsm

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/nodesync"
)

// Each verb that came after version 2 is told of, so that status says all that is held back.
func TestEachVerbIsToldAsHeldBack(t *testing.T) {
	for _, verb := range verbs {
		told := slices.ContainsFunc(novelties, func(n Novelty) bool {
			return n.Version == verb.Since && slices.Contains(n.Verbs, verb.Name)
		})
		if verb.Since > 2 && !told {
			t.Errorf("held-back-told: '%s' came with log version %d: give it a row in novelties", verb.Name, verb.Since)
		}
	}
	for _, n := range novelties {
		for _, name := range n.Verbs {
			if !slices.ContainsFunc(verbs, func(v entry.Verb[*txn]) bool { return v.Name == name && v.Since == n.Version }) {
				t.Errorf("no verb '%s' came with log version %d", name, n.Version)
			}
		}
		if n.Version > Version {
			t.Errorf("log version %d is not known", n.Version)
		}
	}
	if got := HeldBack(Version); len(got) != 0 {
		t.Errorf("held back by the newest version: %q", got)
	}
	if got := HeldBack(Version - 1); len(got) == 0 {
		t.Error("nothing is held back below the newest version")
	}
}

// What needs a version that is not in force is refused with what to do.
func TestRefusalBelowAVersionNamesFinalize(t *testing.T) {
	r := newRig(t)
	r.older("a", Version-1)
	err := r.view().Admits(nodesync.Confirm{Digest: "d"})
	if err == nil || !strings.Contains(err.Error(), "'trivet upgrade finalize'") ||
		!strings.Contains(err.Error(), "log version 3") {
		t.Errorf("held-back: %v", err)
	}
}

// An announcement carries the session of the process that makes it, and is void once the
// next process of that host has opened its own.
func TestAnnouncementOfAnEndedProcessIsVoid(t *testing.T) {
	r := newRig(t)
	r.older("a", Version-1)
	newer := r.must(membership.OpenSession{Peer: "a", Boot: "new", Version: Version - 1}).Token
	r.must(membership.OpenSession{Peer: "a", Boot: "old", Version: Version - 1})
	m, _ := r.view().Member("a")
	m.Version = Version
	res := r.do(Header{Session: newer, Request: r.request()}, membership.PutMember{Member: m})
	if res.Code != SessionEnded || r.view().ClusterVersion() != Version-1 {
		t.Errorf("raised-for-another-process: %v, log version %d", res.Err(), r.view().ClusterVersion())
	}
}

// A founding of an older cluster, by this binary, leaves it what it was: a host with the
// release before still reads the backup that is made next.
func TestFoundingFinalizesNothing(t *testing.T) {
	for name, former := range map[string]bool{"with former members": true, "without": false} {
		for _, survivor := range []string{"a", "new"} {
			r := newRig(t)
			r.must(membership.PutMember{Member: member("b")})
			r.older("b", Version-1) // a has announced the newest, as in a finalization that was broken off
			again := Refound{Index: r.index, NewIncarnation: true, Survivor: survivor}
			if survivor == "new" {
				again.Self = member("new")
			}
			if former {
				again.Former = r.view().MayRun(survivor)
			}
			r.refound(again)
			if got := r.view().ClusterVersion(); got != Version-1 {
				t.Errorf("founding-finalizes: %s, survivor %s: the log is of version %d", name, survivor, got)
			}
		}
	}
}

// TestBytesAreThoseOfV020 writes in a cluster of log version 2 what v0.2.0 was given, and
// compares with the sums of what v0.2.0 wrote: the log, the state and its snapshot.
func TestBytesAreThoseOfV020(t *testing.T) {
	r := busyAt(t, 2)
	log := sha256.New()
	for _, e := range r.log {
		log.Write(e.Data)
	}
	for name, sums := range map[string][2]string{
		"log": {hex.EncodeToString(log.Sum(nil)),
			"4b6035cfb4309265e001f82f1a59ef999ae068c0a88f6783a22dddf7965f283f"},
		"state": {hexOf(r.view().Hash()),
			"a28ac65cb659a4752152740d54ad8edef0b1eb92d9e1de15a7999217fa247b9c"},
		"snapshot": {hexOf(sha256.Sum256(snapshot(t, r.view()))),
			"a493f027f67a3755334f301ad0f1613d2844a0446dd9ef8db9523a8572efb1ca"},
	} {
		if sums[0] != sums[1] {
			t.Errorf("as-v0.2.0: the bytes of the %s have sum %s, v0.2.0's %s", name, sums[0], sums[1])
		}
	}
}

func hexOf(sum [32]byte) string { return hex.EncodeToString(sum[:]) }
