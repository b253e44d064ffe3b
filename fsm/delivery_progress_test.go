package fsm

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/trivet-ha/trivet/fsm/deliveries"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/settings"
)

// noted is a note about one receiver.
func noted(p deliveries.Progress) deliveries.Note {
	return deliveries.Note{Receivers: []deliveries.Progress{p}}
}

// The leader alone notes how far a receiver has the events: never back, never beyond what
// there is, of a bounded number of receivers; snapshots keep it.
func TestProgressOfReceivers(t *testing.T) {
	r := newRig(t)
	r.leads("a")
	last := r.view().Events().Last()
	p := deliveries.Progress{Receiver: "cmdb", Taken: last}
	r.refused(Refused, Header{}, noted(p))
	if _, known := r.view().Delivered("cmdb"); known {
		t.Fatal("anybody may note deliveries")
	}
	r.asLeader(noted(p))
	asLeader := Header{Token: r.view().Leadership().Token}
	back := p
	back.Taken.Index--
	r.refused(Conflict, asLeader, noted(back))
	beyond := p
	beyond.Taken.Index += 1000
	r.refused(Invalid, asLeader, noted(beyond))
	ahead := p
	ahead.Until = eventring.ID{Incarnation: last.Incarnation, Index: last.Index + 1000}
	r.refused(Invalid, asLeader, noted(ahead))
	r.must(settings.PutSetting{Key: "k"})
	p.Until = eventring.ID{Incarnation: last.Incarnation, Index: r.view().Index()}
	r.asLeader(noted(p))
	again, err := Read(bytes.NewReader(snapshot(t, r.view())))
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := again.View().Delivered("cmdb"); got != p {
		t.Errorf("after a snapshot %+v, want %+v", got, p)
	}
	for n := len(r.view().Deliveries()); n < deliveries.MaxReceivers; n++ {
		r.asLeader(noted(deliveries.Progress{Receiver: fmt.Sprint("r", n), Taken: last}))
	}
	asLeader.Token = r.view().Leadership().Token
	one := noted(deliveries.Progress{Receiver: "more", Taken: last})
	r.refused(TableFull, asLeader, one)
	one.Forget = []string{"r1"}
	r.asLeader(one)
	if _, known := r.view().Delivered("r1"); known || len(r.view().Deliveries()) != deliveries.MaxReceivers {
		t.Errorf("receiver r1 is not forgotten: %d receivers", len(r.view().Deliveries()))
	}
	for _, wrong := range []deliveries.Note{{}, noted(deliveries.Progress{}), noted(deliveries.Progress{Receiver: "A"}),
		noted(deliveries.Progress{Receiver: "a", Taken: last, Until: last}),
		{Receivers: one.Receivers, Forget: []string{""}}} {
		if wrong.Validate() == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
}

// After a founding a receiver is told that it may have missed something, and no delivery is
// the same as one of the old history.
func TestFoundingCutsDeliveries(t *testing.T) {
	r := newRig(t)
	r.leads("a")
	last := r.view().Events().Last()
	r.must(settings.PutSetting{Key: "k"})
	r.asLeader(noted(deliveries.Progress{Receiver: "cmdb", Taken: last,
		Until: eventring.ID{Incarnation: last.Incarnation, Index: r.view().Index()}}))
	if err := r.state.Refound(Refound{Index: r.index + 3, UnixMillis: 1_700_000_100_000, NewIncarnation: true,
		Survivor: "a"}); err != nil {
		t.Fatal(err)
	}
	got, known := r.view().Delivered("cmdb")
	if want := (deliveries.Progress{Receiver: "cmdb", Taken: last, Cut: true}); !known || got != want {
		t.Errorf("after a founding %+v, want %+v", got, want)
	}
	if err := r.view().Check(); err != nil {
		t.Error(err)
	}
}
