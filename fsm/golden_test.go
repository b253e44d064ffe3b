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
		"log":       "1f1897479a2f37c72d06e19b278cff6fbd09eb8be585add4c40226703eb2df78",
		"state":     "a1dc5ba9f6c77c61a2bcc0658615f0a8cbb13f9d1ec6759d9d797f0512a81cec",
		"dump":      "81496b719901776676b1fa864c3c2527238554991b385239c856de4e9542824c",
		"adopted":   "c37cec056baa76a2ccd53f53c0164dc545f41f9f563e3b8d4fd7f9aa81839424",
		"refounded": "48baebfaff68d3c0694d104e63f05c3b7f6a8de9ae6211dccf7d95d990b7553f",
	} {
		sum := sums[name]
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("the bytes of the %s have sum %s, want %s", name, got, want)
		}
	}
}
