package fsm

import (
	"slices"
	"testing"
)

// TestInspectedByIronicBoot: what Ironic inspects boots until it does no more,
// and an introspection of the same node here has a say of its own.
func TestInspectedByIronicBoot(t *testing.T) {
	r := newRig(t)
	r.leads("a")
	r.introspects(false)
	r.asLeader(PutInspected{Nodes: []Inspected{{Node: nodeB}}})
	r.introspects(true) // no MAC is known yet
	r.asLeader(PutInspected{Nodes: []Inspected{{Node: nodeA, MACs: []string{macN(1), macN(2)}}}})
	r.allows(macN(1)+" "+nodeA, macN(2)+" "+nodeA)
	if got := r.view().InspectedByMAC(macN(2)); !slices.Equal(got, []string{nodeA}) {
		t.Errorf("inspected by MAC: %v", got)
	}
	before := r.index
	for range 2 { // the second time nothing changes
		r.asLeader(PutInspected{Nodes: []Inspected{{Node: nodeA, MACs: []string{macN(2), macN(3)}}}})
	}
	if macs, ok := r.view().AllowedChangedSince(before); !ok || !slices.Equal(macs, []string{macN(1), macN(3)}) {
		t.Errorf("changed: %v (%v)", macs, ok)
	}
	if i, ok := r.view().Inspected(nodeA); !ok || !slices.Equal(i.MACs, []string{macN(2), macN(3)}) {
		t.Errorf("recorded: %+v (%v)", i, ok)
	}

	s := r.session("a")
	r.start(nodeA)
	r.must(Advance{Claim: r.claim(s).Claim.Hold(), Event: EventStart, Attributes: &Attributes{MACs: []string{macN(2)}}})
	r.asLeader(PutInspected{Remove: []string{nodeA, nodeB}})
	r.allows(macN(2) + " " + nodeA)
	if left := r.view().InspectedNodes(); len(left) > 0 || r.view().InspectedByMAC(macN(2)) != nil {
		t.Errorf("still inspected: %v", left)
	}
}

func TestInspectedAreRefused(t *testing.T) {
	for _, c := range []PutInspected{
		{}, {Remove: []string{"x"}}, {Nodes: []Inspected{{Node: nodeA}}, Remove: []string{nodeA}}, {Nodes: []Inspected{{Node: "x"}}},
		{Nodes: []Inspected{{Node: nodeA, MACs: []string{macN(2), macN(1)}}}}, {Nodes: []Inspected{{Node: nodeA, MACs: []string{macN(1), macN(1)}}}},
		{Nodes: []Inspected{{Node: nodeA, MACs: []string{"x"}}}}, {Nodes: []Inspected{{Node: nodeA, MACs: make([]string, MaxInspectedMACs+1)}}},
		{Nodes: make([]Inspected, MaxInspectedChanges+1)},
	} {
		if _, err := Encode(Header{}, c); err == nil {
			t.Errorf("accepted: %+v", c)
		}
	}
}
