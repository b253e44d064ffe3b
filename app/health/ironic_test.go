package health

import (
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// A peer without Ironic hands leadership to one that has it, and not to one
// that has not said yet.
func TestIronicElsewhere(t *testing.T) {
	state := fsm.New()
	index := uint64(0)
	apply := func(c fsm.Command) fencing.Token {
		t.Helper()
		index++
		data, err := fsm.Encode(fsm.Header{Time: fsm.Time(index) * fsm.Time(time.Millisecond)}, c)
		if err != nil {
			t.Fatal(err)
		}
		res := state.Apply(fsm.Entry{Index: index, Term: 1, Data: data})
		if err := res.Err(); err != nil {
			t.Fatal(err)
		}
		return res.Token
	}
	peer := func(name string) fencing.Token {
		apply(membership.PutMember{
			Member: membership.Member{ID: name, Name: name, Address: name + ":7351", Version: fsm.Version}})
		return apply(membership.OpenSession{Peer: name, Boot: "boot", Version: fsm.Version})
	}
	own, other := peer("h1"), peer("h2")
	apply(membership.RenewSession{Session: own, Applied: index})
	expect := func(want bool, when string) {
		t.Helper()
		if got := ironicElsewhere(state.View(), "h1"); got != want {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	expect(false, "the other has not said")
	apply(membership.RenewSession{Session: other, Applied: index, NoIronic: true})
	expect(false, "the other reaches no Ironic either")
	apply(membership.RenewSession{Session: other, Applied: index})
	expect(true, "the other reaches Ironic")
}
