package fsm

import (
	"bytes"
	"slices"
	"testing"
	"time"

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

// What Ironic inspects boots for as long as the leader said when it read that, and no longer: by
// cluster time, also from a snapshot, and by the wall clock where the cluster had no leader.
func TestInspectedByIronicEnd(t *testing.T) {
	const most = 15 * time.Minute
	read := func(t *testing.T) *rig {
		r := newRig(t)
		r.leads("a")
		r.asLeader(introspection.KeepInspected{For: time.Minute})
		r.asLeader(introspection.KeepInspected{For: most})
		r.asLeader(introspection.PutInspected{Nodes: []introspection.Inspected{{Node: nodeA, MACs: []string{macN(1)}}}})
		return r
	}
	for name, passes := range map[string]func(*rig, time.Duration){
		"cluster time": (*rig).pass,
		"cluster time of a snapshot": func(r *rig, d time.Duration) {
			state, err := Read(bytes.NewReader(snapshot(r.t, r.view())))
			if err != nil {
				r.t.Fatal(err)
			}
			r.state = state
			r.pass(d)
		},
		"the wall clock": func(r *rig, d time.Duration) { r.wall += d.Milliseconds() },
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				passed time.Duration
				boots  bool
			}{{most - time.Second, true}, {most + time.Second, false}} {
				r := read(t)
				passes(r, c.passed)
				r.leads("a")
				if got := r.view().Allowed(macN(1)); got != c.boots || InspectedEnds(r.view()) != c.boots {
					t.Errorf("inspected-without-end: %v after it was read its machine boots: %t", c.passed, got)
				}
			}
		})
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
