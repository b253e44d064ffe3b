package fsm

import (
	"slices"
	"testing"

	"github.com/trivet-ha/trivet/fsm/introspection"
)

// TestInspectedByIronicBoot: what Ironic inspects boots until it does no more,
// and an introspection of the same node here has a say of its own.
func TestInspectedByIronicBoot(t *testing.T) {
	r := newRig(t)
	r.leads("a")
	r.introspects(false)
	r.asLeader(introspection.PutInspected{Nodes: []introspection.Inspected{{Node: nodeB}}})
	r.introspects(true) // no MAC is known yet
	r.asLeader(introspection.PutInspected{
		Nodes: []introspection.Inspected{{Node: nodeA, MACs: []string{macN(1), macN(2)}}}})
	r.allows(macN(1)+" "+nodeA, macN(2)+" "+nodeA)
	if got := r.view().InspectedByMAC(macN(2)); !slices.Equal(got, []string{nodeA}) {
		t.Errorf("inspected by MAC: %v", got)
	}
	before := r.index
	for range 2 { // the second time nothing changes
		r.asLeader(introspection.PutInspected{
			Nodes: []introspection.Inspected{{Node: nodeA, MACs: []string{macN(2), macN(3)}}}})
	}
	if macs, ok := r.view().AllowedChangedSince(before); !ok || !slices.Equal(macs, []string{macN(1), macN(3)}) {
		t.Errorf("changed: %v (%v)", macs, ok)
	}
	if i, ok := r.view().Inspected(nodeA); !ok || !slices.Equal(i.MACs, []string{macN(2), macN(3)}) {
		t.Errorf("recorded: %+v (%v)", i, ok)
	}

	s := r.session("a")
	r.start(nodeA)
	r.must(introspection.Advance{Claim: r.claim(s).Claim.Hold(), Event: introspection.EventStart,
		Attributes: &introspection.Attributes{MACs: []string{macN(2)}}})
	r.asLeader(introspection.PutInspected{Remove: []string{nodeA, nodeB}})
	r.allows(macN(2) + " " + nodeA)
	if left := r.view().InspectedNodes(); len(left) > 0 || r.view().InspectedByMAC(macN(2)) != nil {
		t.Errorf("still inspected: %v", left)
	}
}

func TestInspectedAreRefused(t *testing.T) {
	for _, c := range []introspection.PutInspected{
		{}, {Remove: []string{"x"}}, {Nodes: []introspection.Inspected{{Node: nodeA}}, Remove: []string{nodeA}},
		{Nodes: []introspection.Inspected{{Node: "x"}}},
		{Nodes: []introspection.Inspected{{Node: nodeA, MACs: []string{macN(2), macN(1)}}}},
		{Nodes: []introspection.Inspected{{Node: nodeA, MACs: []string{macN(1), macN(1)}}}},
		{Nodes: []introspection.Inspected{{Node: nodeA, MACs: []string{"x"}}}},
		{Nodes: []introspection.Inspected{{Node: nodeA, MACs: make([]string, introspection.MaxInspectedMACs+1)}}},
		{Nodes: make([]introspection.Inspected, introspection.MaxInspectedChanges+1)},
	} {
		if _, err := Encode(Header{}, c); err == nil {
			t.Errorf("accepted: %+v", c)
		}
	}
}
