package identify

import (
	"context"
	"fmt"

	"github.com/trivet-ha/trivet/inspector/ironic"
)

// Sought is what Ironic's own inspection finds of a machine that sends it a document.
type Sought struct {
	Node  string // the one that the machine's ports name, "" if there is none, or several do
	Port  bool   // Ironic has a port with one of its MACs
	BMC   bool   // Ironic has a node with the address of its BMC
	Waits bool   // one of these waits for a document
}

// Sought says what Ironic has of a machine now. Ironic looks for ports with any of its MACs, and for
// the address of its BMC among the nodes that wait for a document; where it finds neither it may
// enrol the machine. Lists are read, which takes as long as they are: the caller bounds it by ctx.
func (s Search) Sought(ctx context.Context, m Machine) (found Sought, err error) {
	ports, err := s.Ports(ctx)
	if err != nil {
		return found, err
	}
	found.Node, found.Port = owner(m.telling(), ports.nodes), m.hasPort(ports.nodes)
	if found.Port || len(m.BMC) == 0 {
		return found, nil
	}
	bmcs, err := s.BMCs(ctx)
	if err != nil {
		return found, err
	}
	nodes := bmcs.owners(m.BMC, "")
	for i, node := range nodes {
		if i == maxAtBMC {
			return found, fmt.Errorf("%d nodes of Ironic have the address of the machine's BMC; %d were read, and "+
				"wait for no document", len(nodes), maxAtBMC)
		}
		known, there, err := s.Node(ctx, node)
		if err != nil {
			return found, err
		}
		found.BMC = found.BMC || there
		if found.Waits = there && known.Provision == ironic.InspectWait; found.Waits {
			return found, nil
		}
	}
	if !found.BMC {
		err = bmcs.unresolved()
	}
	return found, err
}

// maxAtBMC bounds the nodes that are read because they have the address of a machine's BMC, as those of
// a chassis have. Their number is Ironic's, and not the caller's.
const maxAtBMC = 16

// hasPort reports whether any node has a port with one of the machine's MACs.
func (m Machine) hasPort(nodes func(mac string) []string) bool {
	for _, mac := range m.MACs {
		if len(nodes(mac)) > 0 {
			return true
		}
	}
	return false
}
