package fsm

import (
	"bytes"
	"slices"
	"testing"

	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/fsm/macset"
)

// changed asks the blacklist's feed.
func (r *rig) changed(since uint64, wantOK bool, want ...int) {
	r.t.Helper()
	var macs []string
	for _, n := range want {
		macs = append(macs, macN(n))
	}
	got, ok := r.view().PortsChangedSince(since)
	if ok != wantOK || !slices.Equal(got, macs) {
		r.t.Errorf("changed since %d: %v, %v; want %v, %v", since, got, ok, macs, wantOK)
	}
}

func TestFeedTellsWhatChanged(t *testing.T) {
	r := newRig(t)
	r.leads("a")
	at := r.index
	r.changed(at, true)
	r.asLeader(ironicports.PutPorts{Ports: []ironicports.Port{port("b", 2), port("a", 1)}})
	r.must(Probe{})
	r.asLeader(ironicports.PutPorts{Remove: []string{"a"}})
	r.asLeader(ironicports.PutPorts{Ports: []ironicports.Port{port("a", 1)}})
	r.changed(0, true, 1, 2)
	r.changed(at, true, 1, 2)
	r.changed(at+1, true, 1)
	r.changed(r.index, true)
	r.changed(r.index+1, false) // who asks has seen more than this view
	old := r.view()
	r.asLeader(ironicports.PutPorts{Ports: []ironicports.Port{port("a", 7)}})
	r.changed(at+4, true, 1, 7)
	if macs, ok := old.PortsChangedSince(at + 4); !ok || len(macs) != 0 {
		t.Errorf("an earlier view changed: %v, %v", macs, ok)
	}
}

// The feed forgets the oldest and says so; it never leaves one out in silence.
func TestFeedIsBounded(t *testing.T) {
	r := newRig(t)
	r.leads("a")
	begin := r.index
	h := Header{Token: r.view().Leadership().Token}
	for n := range macset.MaxChanges {
		r.apply(t, h, ironicports.PutPorts{Ports: portsN(n, 1)})
	}
	if macs, ok := r.view().PortsChangedSince(begin); !ok || len(macs) != macset.MaxChanges {
		t.Errorf("%d changes are told, %v", len(macs), ok)
	}
	r.apply(t, h, ironicports.PutPorts{Ports: portsN(macset.MaxChanges, 1)})
	oldest := begin + macset.MaxChanges/2 // the first half is forgotten
	r.changed(oldest-1, false)
	if macs, ok := r.view().PortsChangedSince(oldest); !ok || len(macs) != macset.MaxChanges/2+1 ||
		slices.Contains(macs, macN(macset.MaxChanges/2-1)) {
		t.Errorf("%d changes are told, %v", len(macs), ok)
	}
	// An entry that fills one half and begins the next is told as a whole, or
	// not at all.
	for n := range macset.MaxChanges/2 - 1 - ironicports.MaxPortChanges/2 {
		r.apply(t, h, ironicports.PutPorts{Ports: portsN(10_000+n, 1)})
	}
	r.apply(t, h, ironicports.PutPorts{Ports: portsN(20_000, ironicports.MaxPortChanges)})
	big := r.index
	if macs, ok := r.view().PortsChangedSince(big - 1); !ok || len(macs) != ironicports.MaxPortChanges {
		t.Errorf("%d changes of one entry are told, %v", len(macs), ok)
	}
	for told := true; told; _, told = r.view().PortsChangedSince(big - 1) {
		r.apply(t, h, ironicports.PutPorts{Ports: portsN(30_000+int(r.index), 1)})
	}
	r.changed(big-1, false)
	if macs, ok := r.view().PortsChangedSince(big); !ok || len(macs) != int(r.index-big) {
		t.Errorf("%d changes by %d entries are told, %v", len(macs), r.index-big, ok)
	}
	if err := r.view().Check(); err != nil {
		t.Error(err)
	}
}

// Peers at one index have one hash, whatever they remember.
func TestRestoredFeedsReachBackToNothing(t *testing.T) {
	r := busy(t)
	back, err := Read(bytes.NewReader(snapshot(t, r.view())))
	if err != nil {
		t.Fatal(err)
	}
	v := back.View()
	if v.Hash() != r.view().Hash() {
		t.Error("another hash")
	}
	for name, since := range map[string]func(uint64) ([]string, bool){"ports": v.PortsChangedSince,
		"allowed": v.AllowedChangedSince} {
		if macs, ok := since(v.Index() - 1); ok {
			t.Errorf("%s: a past is told that nobody saw: %v", name, macs)
		}
		if macs, ok := since(v.Index()); !ok || len(macs) != 0 {
			t.Errorf("%s: since the snapshot %v changed, %v", name, macs, ok)
		}
	}
	restored := &rig{t: t, state: back, index: r.index, term: r.term, now: r.now, wall: r.wall}
	restored.asLeader(ironicports.PutPorts{Ports: []ironicports.Port{port("new", 9)}})
	restored.changed(r.index, true, 9)
	restored.changed(r.index-1, false)
}

// A new history numbers its entries anew.
func TestRefoundedFeedsReachBackToNothing(t *testing.T) {
	r := busy(t)
	before := r.index
	if err := r.state.Refound(Refound{Index: before - 3}); err != nil {
		t.Fatal(err)
	}
	r.index = before - 3
	r.changed(before-4, false)
	r.changed(before-3, true)
	r.changed(before, false)
	if _, ok := r.view().AllowedChangedSince(before); ok {
		t.Error("the whitelist tells of a future")
	}
}
