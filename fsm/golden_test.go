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
		"state":     "1d0ba7fa656dc9b89e149029ac6d5427936b3c946755d03056039dfdd8729a1f",
		"dump":      "e5c868214675d6912bcf04b114d4a9cc1b4ea1c2891b83565aaf7f1bc792c3d9",
		"adopted":   "6689239ff2733397b0614c1fa9c8ed3ae0d0fa52da6d7cde6e595080c7dac64a",
		"refounded": "5f49398c4a4b97fe64808e9ab18cc5989c28dde39f9ee3a2e28feeeb3d516fa5",
	} {
		sum := sums[name]
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("the bytes of the %s have sum %s, want %s", name, got, want)
		}
	}
}
