package identify

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ironicports"
)

// manyNodes is a machine with 1,024 MACs of which each of some nodes has one, and another
// that it lacks; it was found to be none of them.
func manyNodes(nodes int) (Machine, Ports) {
	m := Machine{Serial: "sn-1"}
	var ports []ironicports.Port
	for i := range MaxInterfaces {
		m.MACs = append(m.MACs, fmt.Sprintf("52:54:00:00:%02x:%02x", i>>8, i&255))
	}
	for n := range nodes {
		node, mac := fmt.Sprintf("node-%d", n), m.MACs[n%len(m.MACs)]
		other := fmt.Sprintf("52:54:01:00:%02x:%02x", n>>8, n&255)
		m.Not = append(m.Not, Exclusion{Node: node, Why: "it is another", macs: []string{mac, other}})
		ports = append(ports, ironicports.Port{ID: mac, MAC: mac, Node: node},
			ironicports.Port{ID: other, MAC: other, Node: node})
	}
	return m, NewPorts(ports)
}

// A document costs work by its MACs and their nodes, not by one times the other. Work is
// counted by what it allocates.
func TestADocumentOfManyNodesIsComparedOnce(t *testing.T) {
	cost := func(nodes int) float64 {
		m, ports := manyNodes(nodes)
		s := Search{
			Node:  func(context.Context, string) (Known, bool, error) { return Known{}, false, nil },
			Ports: func(context.Context) (Ports, error) { return ports, nil },
			BMCs:  func(context.Context) (BMCs, error) { return BMCs{}, nil },
		}
		return testing.AllocsPerRun(1, func() {
			found, err := s.InIronic(t.Context(), m)
			if err != nil {
				t.Error(err)
			}
			if _, err := found.New(m.MACs); err != nil {
				t.Error(err)
			}
		})
	}
	few, many := cost(10), cost(1000)
	if more := (many - few) / 990; more > 40 {
		t.Errorf("node-work: each further node costs %.0f allocations, 10 cost %.0f, 1,000 %.0f", more, few, many)
	}
}

// A document with each MAC a thousand times has it once.
func TestMACsAreUnique(t *testing.T) {
	var twice []string
	for range 2 {
		for i := range 1000 {
			twice = append(twice, fmt.Sprintf("52:54:00:00:%02X:%02x", i>>8, i&255))
		}
	}
	if got := PortMACs(twice); len(got) != 1000 || got[0] != "52:54:00:00:00:00" || got[999] != "52:54:00:00:03:e7" {
		t.Errorf("unique: %d MACs", len(got))
	}
}

// What a search computes is told without its waits for Ironic.
func TestSearchTellsWhatItComputes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, computed := Search{
			Node: func(context.Context, string) (Known, bool, error) {
				time.Sleep(time.Second) // in a bubble
				return Known{Attributes: introspection.Attributes{}}, true, nil
			},
			Ports: func(context.Context) (Ports, error) {
				time.Sleep(2 * time.Second) // in a bubble
				return Ports{}, nil
			},
			BMCs: func(context.Context) (BMCs, error) {
				time.Sleep(4 * time.Second) // in a bubble
				return BMCs{}, nil
			},
		}.Timed()
		time.Sleep(30 * time.Millisecond) // in a bubble, as if it computed
		_, _, errNode := s.Node(t.Context(), "n")
		_, errPorts := s.Ports(t.Context())
		time.Sleep(20 * time.Millisecond) // as above
		_, errBMCs := s.BMCs(t.Context())
		if got := computed(); got != 50*time.Millisecond || errNode != nil || errPorts != nil || errBMCs != nil {
			t.Errorf("computed: %v (%v, %v, %v)", got, errNode, errPorts, errBMCs)
		}
	})
}
