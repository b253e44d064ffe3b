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
		"log":       "7685d04ba79543d4055ea5d978d4731b7d9a6ce4fa88354ffcf806dea1e98a09",
		"state":     "6e802fd033f525297e04f49d8a517a51dfb2e1be4a5a16664e14afe601bef182",
		"dump":      "58b53e6a476858bb87e2f0b3be7f15dbc70965f5e7a3e4933642bcaec2861194",
		"adopted":   "6ac10052cc3b9e3141ffff65be127e53eaf387c699ccfe11645eebeacb9f7fa0",
		"refounded": "b36c996aeb519b47efc6c0d3233d9530fd867fbcbcb754a347cdc320eb96379e",
	} {
		sum := sums[name]
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("the bytes of the %s have sum %s, want %s", name, got, want)
		}
	}
}
