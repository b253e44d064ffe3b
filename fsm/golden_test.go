package fsm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/operators"
)

// TestBytesStayTheSame pins every byte of a log, and of the states that it and the
// foundings after it lead to: peers of one log version, old binaries and new ones, write
// the same. A figure may change in a change of busy, and with a new log version.
func TestBytesStayTheSame(t *testing.T) {
	r := busy(t)
	sums := map[string][32]byte{"state": r.view().Hash(), "dump": sha256.Sum256([]byte(dumpText(t, r.view())))}
	log := sha256.New()
	for _, e := range r.log {
		log.Write(e.Data)
	}
	sums["log"] = [32]byte(log.Sum(nil))

	adopted, err := Read(bytes.NewReader(snapshot(t, r.view())))
	if err != nil {
		t.Fatal(err)
	}
	local := busy(t)
	local.must(operators.RevokeOperator{Name: "ann", UpTo: 1_700_000_001, Ends: 1_700_010_000})
	local.must(membership.PutMember{Member: member("local")})
	local.must(membership.RemoveMember{ID: "local", Force: true})
	local.session("c")
	adopted.Adopt(local.view())
	sums["adopted"] = adopted.View().Hash()
	again := Refound{
		Index: local.index + 3, UnixMillis: 1_700_000_100_000, NewIncarnation: true, Survivor: "a",
		Former: local.view().MayRun("a"),
	}
	if err := adopted.Refound(again); err != nil {
		t.Fatal(err)
	}
	sums["refounded"] = adopted.View().Hash()

	for name, want := range map[string]string{
		"log":       "ec04bfecab0bb0d4c5d6b9de08333255136e5b5de0affdfdd27f85d890109eb1",
		"state":     "da7dad033ee4f44df920707135308f9fa9cba4bdb576fc686af2e2a196b59167",
		"dump":      "50d43f2d04312544d95ca7c32ca53607e04d86e915eb882fe9e26c979eb0e4ae",
		"adopted":   "6b344058b9e70b235376ac81a2865f8d2ac264c52ccef2dcd0676e2f1097298a",
		"refounded": "7f22abd9567a6e4f81bf3fcc5cba0e09ba44929af27b5365b900f4943cba3499",
	} {
		sum := sums[name]
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("the bytes of the %s have sum %s, want %s", name, got, want)
		}
	}
}
