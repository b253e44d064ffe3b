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
		"log":       "d8995b994eda4b400578ebc1e8e201b28485200567009bf86a4fd68b4435c6ed",
		"state":     "dd5143b79a69994e755ded1ceeef157d1b98ce1d6467c4a6559b3487a1e78860",
		"dump":      "283d9288ebfa9113d0d07a77dae5f0e44a377c7adac88636e143f711849a6bee",
		"adopted":   "ce2330a6d93ec6a5311901e0bf7cf0e3716a2f0fdf296fe4cef264e1e2931248",
		"refounded": "30405b1605e99a95ff6ee0b3145ef10117e04ea9a6f1200b2352eb179520dc3b",
	} {
		sum := sums[name]
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("the bytes of the %s have sum %s, want %s", name, got, want)
		}
	}
}
