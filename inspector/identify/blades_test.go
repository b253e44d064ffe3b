package identify

import (
	"testing"

	"github.com/trivet-ha/trivet/fsm/introspection"
)

// Blades that Ironic reaches at one address are told apart without a start, too: one that calls is
// found by its ports, one that Ironic does not have is discovered, and what is in doubt is neither.
func TestBladesInIronic(t *testing.T) {
	first, second := at(node1, "", []string{mac1}, bmc1), at(node2, "", []string{mac2}, bmc1)
	const exists1, exists2 = "Node " + node1 + " already has BMC address " + bmc1,
		"Node " + node2 + " already has BMC address " + bmc1
	for _, tt := range []struct {
		name    string
		nodes   []Known
		macs    string
		node    string // that Ironic has
		made    string // what is made of the machine where that is none
		not     string // a node that was excluded by what its start knew
		bridged bool
	}{
		{name: "a blade with its port", nodes: []Known{first, second}, macs: mac1, node: node1},
		{name: "a blade with its port, next to one without", nodes: []Known{first, at(node2, "", nil, bmc1)}, macs: mac1,
			node: node1},
		{name: "a blade with its port, behind a bridge", nodes: []Known{at(node1, "", []string{mac1}, bmc2), second},
			macs: mac1, node: node1, bridged: true},
		{name: "another blade", nodes: []Known{first, second}, macs: mac3, node: "none", made: "new"},
		{name: "another blade, with a card in common",
			nodes: []Known{at(node1, "", []string{common}, bmc1), at(node2, "", []string{mac2, common}, bmc1)},
			macs:  mac3 + " usb:" + common, node: "none", made: "new"},
		{name: "maybe the one that has no port", nodes: []Known{first, at(node2, "", nil, bmc1)}, macs: mac3,
			node: "several", made: exists2},
		{name: "maybe the one that has no port, and had another address before",
			nodes: []Known{first, at(node2, "", nil, bmc1)}, macs: mac3, node: "several", made: exists2, not: node2},
		{name: "neither has a port", nodes: []Known{at(node1, "", nil, bmc1), at(node2, "", nil, bmc1)}, macs: mac3,
			node: "several", made: exists1},
		{name: "no MAC", nodes: []Known{first, second}, node: "several", made: exists1},
		{name: "one node has the address", nodes: []Known{first, at(node2, "", []string{mac2}, bmc2)}, macs: mac3,
			node: node1, made: exists1},
		{name: "the port of one, the BMC of another", nodes: []Known{first, at(node2, "", []string{mac2})}, macs: mac2,
			node: "several"},
		{name: "the port of one, the BMC of blades", nodes: []Known{first, second, at(node3, "", []string{mac3})},
			macs: mac3, node: "several"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, tt.nodes...)
			if tt.bridged {
				s.bridged = []string{node1}
			}
			m := machine(tt.macs, bmc1, "")
			if tt.not != "" {
				m.Not = []Exclusion{{Node: tt.not, Why: "it had another address at its start"}}
			}
			found, err := s.search().InIronic(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			if a := found.Node(); verdict(a) != tt.node {
				t.Errorf("shared-bmc: Ironic has %s, %s, want %s", verdict(a), a.Machine.Unknown(), tt.node)
			}
			if a, err := found.New(m.MACs); err != nil || tt.made != "" && verdict(a) != tt.made {
				t.Errorf("shared-bmc: made of it: %s, want %s (%v)", verdict(a), tt.made, err)
			}
		})
	}
}

// A blade that is discovered does not yield to one under introspection at the same address,
// whether Ironic has that already or not; a document of the same machine does.
func TestBladesAreDiscoveredTogether(t *testing.T) {
	s := newSite(t, at(node1, "", []string{mac1}, bmc1), at(node2, "", []string{mac2}, bmc1)).starts(t)
	s.do(t, introspection.Start{Node: node3, Event: introspection.EventEnroll, Timeout: 1e9,
		Attributes: introspection.Attributes{MACs: []string{mac3}, BMC: []string{bmc1}}})
	const late = "52:54:00:a5:04:01"
	for macs, want := range map[string]string{late: "", late + " " + mac3: node3} {
		m := machine(macs, bmc1, "")
		found, err := s.search().InIronic(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		rec := introspection.Record{Attributes: m.Attributes, Begun: 1 << 40}
		if got := found.Elder(s.View(), rec); got != want {
			t.Errorf("shared-bmc: %s yields to %q, want %q", macs, got, want)
		}
	}
}
