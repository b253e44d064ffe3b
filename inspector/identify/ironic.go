package identify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// Ports are all ports that Ironic has.
type Ports struct {
	byMAC map[string][]ironicports.Port
	macs  map[string][]string // by node
}

// NewPorts files ports; their MACs are in lower case.
func NewPorts(all []ironicports.Port) Ports {
	p := Ports{make(map[string][]ironicports.Port, len(all)), make(map[string][]string, len(all))}
	for _, port := range all {
		p.byMAC[port.MAC] = append(p.byMAC[port.MAC], port)
		p.macs[port.Node] = append(p.macs[port.Node], port.MAC)
	}
	return p
}

// nodes returns the nodes that have a port with a MAC.
func (p Ports) nodes(mac string) (nodes []string) {
	for _, port := range p.byMAC[mac] {
		nodes = append(nodes, port.Node)
	}
	return nodes
}

// byNode returns those of some MACs that each node has a port with.
func (p Ports) byNode(macs []string) map[string][]string {
	theirs := make(map[string][]string)
	for _, mac := range macs {
		for _, port := range p.byMAC[mac] {
			theirs[port.Node] = append(theirs[port.Node], mac)
		}
	}
	return theirs
}

// BMCs are the BMCs of all nodes that Ironic has.
type BMCs struct {
	nodes     map[string][]string // by address
	addresses map[string][]string // by node
	bridged   map[string]bool     // nodes behind an IPMI bridge
	unnamed   map[string]error    // nodes whose BMC has a name that cannot be resolved for now, and why
}

// NewBMCs has room for those of n nodes.
func NewBMCs(n int) BMCs {
	return BMCs{make(map[string][]string, n), make(map[string][]string, n), make(map[string]bool), make(map[string]error)}
}

// ErrUnresolved says that a machine may be a node whose BMC's name cannot be resolved for now. It
// is the error of an *ironic.Error, as of an Ironic that does not tell.
var ErrUnresolved = errors.New("name of a BMC not resolved")

// unresolved is ErrUnresolved if the BMC of a node may be any machine's.
func (b BMCs) unresolved() error {
	if len(b.unnamed) == 0 {
		return nil
	}
	node := slices.Min(slices.Collect(maps.Keys(b.unnamed)))
	return &ironic.Error{Err: fmt.Errorf("%w: %w", ErrUnresolved, b.unnamed[node]),
		Message: fmt.Sprintf("The name of the BMC of node %s cannot be resolved for now; repeat the callback", node)}
}

// Add files what Ironic has of a node.
func (b BMCs) Add(node string, addresses []string, bridged bool) {
	b.addresses[node] = addresses
	for _, address := range addresses {
		b.nodes[address] = append(b.nodes[address], node)
	}
	if bridged {
		b.bridged[node] = true
	}
}

// owners returns the nodes that have a BMC with one of the addresses, each once; none if the
// node is one of them, or has its own BMC behind an IPMI bridge.
func (b BMCs) owners(addresses []string, node string) (nodes []string) {
	for _, address := range addresses {
		nodes = append(nodes, b.nodes[address]...)
	}
	if b.bridged[node] || slices.Contains(nodes, node) {
		return nil
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// blades returns the nodes that have one of the addresses in common with another node.
func (b BMCs) blades(addresses []string) (nodes []string) {
	for _, address := range routed(addresses) {
		if theirs := unique(slices.Clone(b.nodes[address])); len(theirs) > 1 {
			nodes = append(nodes, theirs...)
		}
	}
	return unique(nodes)
}

// another returns the first of some nodes that is not this one, "" if there is none.
func another(nodes []string, node string) string {
	if n := slices.IndexFunc(nodes, func(other string) bool { return other != node }); n >= 0 {
		return nodes[n]
	}
	return ""
}

// Found is what Ironic has that may be a machine.
type Found struct {
	m      Machine
	ports  []ironicports.Port // with one of its MACs, in the order of these
	at     []string           // nodes with one of its BMC's addresses, without blades that it is not
	shared []string           // MACs that nodes have which are other machines
	macs   map[string][]string
	bmcs   BMCs
}

// InIronic finds what Ironic has that may be a machine, without regard to what is under
// introspection.
func (s Search) InIronic(ctx context.Context, m Machine) (f Found, err error) {
	var ports Ports
	if len(PortMACs(m.MACs)) > 0 {
		if ports, err = s.Ports(ctx); err != nil {
			return f, err
		}
	}
	if len(m.BMC) > 0 {
		if f.bmcs, err = s.BMCs(ctx); err != nil {
			return f, err
		}
	}
	blades := f.bmcs.blades(m.BMC)
	with, known := ports.candidates(m, f.bmcs, blades)
	telling, atBMC := ports.byNode(m.telling()), setOf(blades)
	m.Not = slices.DeleteFunc(slices.Clone(m.Not), func(x Exclusion) bool { // a port or address that came later is news
		if atBMC.has(x.Node) {
			return true
		}
		return setOf(x.macs).lacks(telling[x.Node])
	})
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	fit := setOf(nodesOf(s.ask(ctx, &m, m.fitting(known))))
	for _, p := range with {
		if fit.has(p.Node) {
			f.ports = append(f.ports, p)
		} else {
			f.shared = append(f.shared, p.MAC)
		}
	}
	f.at = without(f.bmcs.owners(m.BMC, ""), slices.DeleteFunc(blades, fit.has))
	f.m, f.macs = m, ports.macs
	return f, nil
}

// candidates returns the ports with one of a machine's MACs, in the order of these, and what is
// known of their nodes and of the blades with the machine's BMC. An address that one node alone
// has leaves no doubt of it, and is not weighed.
func (p Ports) candidates(m Machine, bmcs BMCs, blades []string) (with []ironicports.Port, known []Known) {
	for _, mac := range PortMACs(m.MACs) {
		with = append(with, p.byMAC[mac]...)
	}
	var nodes []string
	for _, port := range with {
		nodes = append(nodes, port.Node)
	}
	atBMC, rivals := setOf(blades), m.rivals(p.nodes)
	for _, node := range unique(append(nodes, blades...)) {
		a := introspection.Attributes{MACs: p.macs[node], BMC: bmcs.addresses[node]}
		k := Known{Node: node, Attributes: a, rival: rivals(node)}
		if atBMC.has(node) {
			k.owner = another(blades, node)
		}
		known = append(known, k)
	}
	return with, known
}

// Started answers with the one node under introspection that has a port in Ironic with a
// MAC of the machine: a port that was created after the start is not among the attributes
// that the start filed.
func (f Found) Started(v fsm.View) Answer {
	var waiting []string
	for _, p := range f.ports {
		if rec, there := v.Record(p.Node); there && rec.State.Active() {
			waiting = append(waiting, p.Node)
		}
	}
	waiting = unique(waiting)
	if len(waiting) == 1 { // as if the owners of its BMC waited as well
		waiting = append(waiting, f.bmcs.owners(routed(f.m.BMC), waiting[0])...)
	}
	return among(waiting, textSeveral, f.m)
}

// Node answers with the one node that Ironic has. Its ports and its BMC outweigh that other nodes
// have the BMC as well; of these one that no port names is never told from the others.
func (f Found) Node() Answer {
	var nodes, macs []string
	for _, p := range f.ports {
		nodes, macs = append(nodes, p.Node), append(macs, p.MAC)
	}
	switch nodes = unique(nodes); {
	case len(nodes) == 1:
		nodes = append(nodes, f.bmcs.owners(f.m.BMC, nodes[0])...)
	case len(f.at) > 0:
		nodes = append(nodes, f.bmcs.owners(f.m.BMC, "")...)
	}
	a := among(nodes, "Ironic has several nodes with attributes %s: %s", f.m)
	a.Attributes = introspection.Attributes{MACs: Bounded(unique(macs)), BMC: Bounded(f.m.BMC)}
	return a
}

// Bounded cuts MACs or addresses to what a record takes.
func Bounded(all []string) []string { return all[:min(len(all), introspection.MaxAttributes)] }
