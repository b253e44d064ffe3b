package identify

import (
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/test/memlog"
)

// The beginning of a document is searched for MACs, and for nothing that only looks so.
func TestMACsAtTheBeginning(t *testing.T) {
	s := newSite(t, at(node1, "", []string{mac1}), at(node2, "", []string{mac2, mac3}),
		at(node3, "", []string{mac3})).starts(t)
	for text, want := range map[string]string{
		`{"inventory":{"interfaces":[{"name":"eth0","mac_address":"52:54:00:A5:01:01","lldp":null},{"mac_address":"` + mac2 +
			`"}`: node1,
		`{"a":"` + mac3 + `","b":"` + mac2 + `"`:          node2, // the first is in two
		`{"a":"` + mac1[:16]:                              "",
		`"` + mac1 + `"`:                                  node1,
		`{"a":"` + mac1 + `:02","b":"52-54-00-a5-01-01"}`: "",
		strings.Repeat(`"`, 4096):                         "",
		"":                                                "",
		strings.Repeat(`"`+noMAC+`",`, maxSeen) + `"` + mac1 + `"`: "",
	} {
		if node, ok := Named(s.View(), []byte(text)); node != want || ok != (want != "") {
			t.Errorf("first-macs: %.100s: %q, want %q", text, node, want)
		}
	}
}

// Machines that Ironic inspects are named, too, by a MAC that is no other's under introspection.
func TestMACsOfWhatIronicInspects(t *testing.T) {
	s := newSite(t, at(node1, "", []string{mac1}), at(node2, "", []string{mac2})).starts(t)
	inspected := introspection.PutInspected{Nodes: []introspection.Inspected{
		{Node: node1, MACs: []string{mac1}}, {Node: node3, MACs: []string{mac2, mac3}}}}
	if res, err := s.DoAsLeader(inspected); err != nil || res.Err() != nil {
		t.Fatal(res, err)
	}
	for mac, want := range map[string]string{mac1: node1, mac2: "", mac3: node3} {
		if node, ok := Named(s.View(), []byte(`{"mac_address":"`+mac+`"`)); node != want || ok != (want != "") {
			t.Errorf("first-macs: of %s, which Ironic inspects, it names %q, want %q", mac, node, want)
		}
	}
}

// TestMACsOfANode: those of ports in Ironic and those of the introspection, each
// once.
func TestMACsOfANode(t *testing.T) {
	log := memlog.New(t)
	do := func(c fsm.Command) {
		t.Helper()
		if res, err := log.DoAsLeader(c); err != nil || res.Err() != nil {
			t.Fatalf("%v, %v", res, err)
		}
	}
	do(ironicports.PutPorts{Complete: true,
		Ports: []ironicports.Port{{ID: "p1", MAC: mac1, Node: node1}, {ID: "p2", MAC: mac2, Node: node2}}})
	if got := MACsOf(log.View(), node1); !slices.Equal(got, []string{mac1}) {
		t.Errorf("MACs of a node: %q", got)
	}
	if got := NodeAt(log.View(), mac2); got != node2 {
		t.Errorf("node at a MAC: %q", got)
	}
	if got := NodeAt(log.View(), "52:54:00:ff:ff:ff"); got != "" ||
		len(MACsOf(log.View(), "00000000-0000-4000-8000-0000000000ff")) > 0 {
		t.Errorf("node at an unknown MAC: %q", got)
	}
	do(ironicports.PutPorts{Ports: []ironicports.Port{{ID: "p3", MAC: mac2, Node: node1}}})
	if got := NodeAt(log.View(), mac2); got != "" {
		t.Errorf("two nodes have it, and %q is named", got)
	}
}
