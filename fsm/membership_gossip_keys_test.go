package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/operators"
)

func newKey(b byte) []byte { return bytes.Repeat([]byte{b}, membership.GossipKeySize) }

// keyring says what keys a peer has, by their first bytes.
func keyring(v View) (all string) {
	for _, key := range v.GossipKeys() {
		all += string(rune(key[0]))
	}
	return all
}

func TestGossipRotationStepByStep(t *testing.T) {
	r := newRig(t)
	r.must(Lead{Peer: "a", Boot: "b"})
	r.must(membership.PutMember{Member: member("c")}) // down
	r.session("a")
	r.session("b")
	old := string(rune(founding().GossipKey[0]))
	advance := func() Result {
		return r.do(Header{Token: r.view().Leadership().Token},
			membership.AdvanceGossipKeys{Changed: r.view().GossipRotation().Changed})
	}
	first := r.must(membership.RotateGossipKey{Key: newKey('n')}).Token
	for _, step := range []struct {
		stage membership.GossipStage
		keys  string
	}{{membership.GossipAdding, old + "n"}, {membership.GossipUsing, "n" + old}, {membership.GossipDropping, "n"}} {
		at := r.view().GossipRotation()
		if at.Stage != step.stage || keyring(r.view()) != step.keys {
			t.Fatalf("stage %v with keys %q, want %v with %q", at.Stage, keyring(r.view()), step.stage, step.keys)
		}
		if res := r.do(Header{}, membership.RotateGossipKey{Key: newKey('m')}); res.Code != Conflict {
			t.Errorf("a second rotation at %v: %v", at.Stage, res)
		}
		r.must(membership.ConfirmGossipKeys{Peer: "a", Changed: at.Changed})
		if res := advance(); res.Code != Refused || !strings.Contains(res.Message, "host-b") {
			t.Fatalf("rotation-waits-for-the-living: %v went on without b: %v", at.Stage, res)
		}
		r.must(membership.ConfirmGossipKeys{Peer: "b", Changed: at.Changed})
		if res := advance(); res.Code != OK {
			t.Fatalf("%v: %v", at.Stage, res)
		}
		if res := r.do(Header{}, membership.ConfirmGossipKeys{Peer: "c", Changed: at.Changed}); res.Code != Conflict {
			t.Errorf("a late word about %v: %v", at.Stage, res)
		}
	}
	end := r.view().GossipRotation()
	if end.Stage != membership.GossipSettled || keyring(r.view()) != "n" || end.Changed <= first ||
		r.view().GossipMissing() != nil {
		t.Errorf("at the end %+v, keys %q", end, keyring(r.view()))
	}
	if res := r.do(Header{}, membership.RotateGossipKey{Key: newKey('n')}); res.Code != Conflict {
		t.Errorf("the same key again: %v", res)
	}
	if res := advance(); res.Code != Conflict {
		t.Errorf("a step of no rotation: %v", res)
	}
}

func TestGossipRotationIsBounded(t *testing.T) {
	r := newRig(t)
	r.must(Lead{Peer: "a", Boot: "b"})
	a := r.session("a")
	at := r.must(membership.RotateGossipKey{Key: newKey('n')}).Token
	for range 7 { // a lives, and never confirms
		r.pass(membership.SessionTTL - time.Second)
		r.must(membership.RenewSession{Session: a})
		if r.now < r.view().GossipRotation().Since.Add(membership.GossipStepTimeout) {
			if res := r.do(
				Header{Token: r.view().Leadership().Token}, membership.AdvanceGossipKeys{Changed: at}); res.Code != Refused {
				t.Fatalf("at %v: %v", r.now, res)
			}
		}
	}
	if res := r.do(Header{Token: r.view().Leadership().Token}, membership.AdvanceGossipKeys{Changed: at}); res.Code != OK {
		t.Errorf("after %v: %v", membership.GossipStepTimeout, res)
	}
}

// A restore keeps the gossip keys of the later history, and what either of two
// histories has revoked. A snapshot that was taken before there were rotations
// is read by binaries of that time.
func TestTheLaterHistoryHasTheKeys(t *testing.T) {
	file, local := newRig(t), newRig(t)
	if strings.Contains(string(recordTags(local.state)), "G") {
		t.Error("keys that were never rotated are written: older binaries would take the snapshot for damaged")
	}
	file.must(membership.RotateGossipKey{Key: newKey('t')})
	file.must(operators.RevokeOperator{Name: "ann", UpTo: 1, Ends: 2})
	file.must(operators.RevokeOperator{Name: "both", UpTo: 5, Ends: 6})
	file.must(operators.NoteOperator{Name: "bob", Issued: 1, Ends: 9})
	backup := file.state.View()
	local.must(membership.RotateGossipKey{Key: newKey('o')})
	local.must(operators.RevokeOperator{Name: "bob", UpTo: 1, Ends: 2})
	local.must(operators.RevokeOperator{Name: "both", UpTo: 3, Ends: 9})
	for _, later := range []bool{false, true} {
		restored, want := &State{backup.data}, keyring(file.view())
		if later {
			want = keyring(local.view())
			local.index += 10
			local.must(Probe{})
		}
		restored.Adopt(local.view())
		if err := restored.Refound(Refound{Index: local.index, NewIncarnation: true, Survivor: "a"}); err != nil {
			t.Fatal(err)
		}
		v := restored.View()
		if err := v.Check(); err != nil {
			t.Error(err)
		}
		if keyring(v) != want {
			t.Errorf("local history later: %v; the keys are %q, want %q", later, keyring(v), want)
		}
		for name, upTo := range map[string]int64{"ann": 1, "bob": 1, "both": 5} {
			if o, _ := v.Operator(name); o.Revoked != upTo || o.Ends < 2 {
				t.Errorf("operator %s is %+v, revoked up to %d before", name, o, upTo)
			}
		}
	}
}

// The records of two full tables of operators that fit are those with a revocation.
func TestRevocationsOutliveAFullTable(t *testing.T) {
	file, local := newRig(t), newRig(t)
	for i := range operators.MaxOperators {
		file.must(operators.NoteOperator{Name: fmt.Sprint("noted-", i), Issued: 1, Ends: 1 << 40})
		local.must(operators.RevokeOperator{Name: fmt.Sprint("revoked-", i), UpTo: 1, Ends: 1 << 40})
	}
	file.state.Adopt(local.view())
	if o, ok := file.view().Operator("revoked-7"); !ok || o.Revoked != 1 ||
		len(file.view().Operators()) != operators.MaxOperators {
		t.Errorf("%d operators, %+v", len(file.view().Operators()), o)
	}
}

func recordTags(s *State) (tags []byte) {
	for record := range s.now.records() {
		tags = append(tags, record[0])
	}
	return tags
}

func TestOperatorsAreRevoked(t *testing.T) {
	r := newRig(t)
	r.must(operators.NoteOperator{Name: "ann", Issued: 100, Ends: 200})
	r.must(operators.RevokeOperator{Name: "ann", UpTo: 150, Ends: 250})
	if res := r.do(Header{}, operators.NoteOperator{Name: "ann", Issued: 150, Ends: 260}); res.Code != Conflict {
		t.Errorf("a certificate of the revoked second: %v", res)
	}
	r.must(operators.NoteOperator{Name: "ann", Issued: 151, Ends: 260})
	if o, _ := r.view().Operator("ann"); o != (operators.Operator{Name: "ann", Issued: 151, Ends: 260, Revoked: 150}) {
		t.Errorf("%+v", o)
	}
	r.must(operators.RevokeOperator{Name: "ann", UpTo: 120, Ends: 220}) // by a clock that is behind the issuer's
	if o, _ := r.view().Operator("ann"); o.Revoked != 151 || o.Ends != 260 {
		t.Errorf("revoked-whatever-the-clock: certificates up to %d are void, one was issued at %d", o.Revoked, o.Issued)
	}
	r.wall = 1000_000 // all of them have ended
	for i := range operators.MaxOperators + 5 {
		r.must(operators.NoteOperator{Name: "op-" + strings.Repeat("x", i/26) + string(rune('a'+i%26)), Issued: 10,
			Ends: 11 + int64(i)})
	}
	if n := len(r.view().Operators()); n != operators.MaxOperators {
		t.Errorf("%d operators", n)
	}
	r.wall = 1 // all are good
	if res := r.do(Header{}, operators.RevokeOperator{Name: "one more", UpTo: 10, Ends: 11}); res.Code != Refused {
		t.Errorf("one more: %v", res)
	}
	for _, c := range []Command{
		membership.RotateGossipKey{Key: newKey('x')[:31]}, membership.ConfirmGossipKeys{Peer: "a"},
		membership.ConfirmGossipKeys{Changed: 1}, membership.AdvanceGossipKeys{},
		operators.NoteOperator{Name: "ann"}, operators.NoteOperator{Issued: 1, Ends: 2},
		operators.RevokeOperator{Name: "ann", UpTo: 2, Ends: 2}, operators.RevokeOperator{UpTo: 1, Ends: 2},
	} {
		var refused *Error
		if _, err := Encode(Header{}, c); !errors.As(err, &refused) || refused.Code != Invalid {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
