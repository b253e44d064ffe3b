package inspector

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/trivet-ha/trivet/fsm/introspection"
)

// nameQuestions is how many names of BMCs are resolved at once.
const nameQuestions = 16

// nodeLookup knows which machines Ironic has, without regard to what is under
// introspection. Any client can make a peer ask, with a document of many MACs. So
// Ironic's lists are read, each once for all who wait for it, and no more often
// than their readings allow. No answer is older than its question.
type nodeLookup struct {
	ports *sharedRead[knownPorts]
	bmcs  *sharedRead[knownBMCs]
}

// knownPorts are all ports that Ironic has.
type knownPorts struct {
	byMAC map[string][]Port
	macs  map[string][]string // by node
}

// knownBMCs are the BMCs of all nodes that Ironic has.
type knownBMCs struct {
	byAddress map[string][]nodeAt
	addresses map[string][]string // by node
}

// newNodeLookup reads from Ironic. fields are those of driver_info, besides
// ipmi_address, that may hold the address of a BMC.
func newNodeLookup(ironic Discoverer, resolver Resolver, fields func() []string, log *slog.Logger) *nodeLookup {
	return &nodeLookup{
		ports: newSharedRead(func(ctx context.Context) (knownPorts, error) {
			ports, err := ironic.AllPorts(ctx)
			known := knownPorts{byMAC: make(map[string][]Port, len(ports)), macs: make(map[string][]string, len(ports))}
			for _, p := range ports {
				known.byMAC[p.Address] = append(known.byMAC[p.Address], p)
				known.macs[p.Node] = append(known.macs[p.Node], p.Address)
			}
			return known, err
		}),
		bmcs: newSharedRead(func(ctx context.Context) (knownBMCs, error) {
			nodes, err := ironic.NodesWithBMC(ctx)
			if err != nil {
				return knownBMCs{}, err
			}
			return byBMC(ctx, nodes, resolver, fields(), log)
		}),
	}
}

// nodeAt is a node whose BMC has one of the addresses asked for.
type nodeAt struct {
	node    Node
	address string
}

// byBMC files nodes under their BMCs' addresses. Names that cannot be resolved are
// left out, as at a start.
func byBMC(ctx context.Context, nodes []Node, resolver Resolver, fields []string, log *slog.Logger) (knownBMCs, error) {
	var mu sync.Mutex
	known := knownBMCs{byAddress: make(map[string][]nodeAt, len(nodes)), addresses: make(map[string][]string, len(nodes))}
	err := each(ctx, len(nodes), nameQuestions, func(ctx context.Context, i int) error {
		theirs, err := BMCAddresses(ctx, resolver, nodes[i], fields)
		if err != nil {
			log.Debug("find BMC address of node failed", "node", nodes[i].UUID, "err", err)
		}
		mu.Lock()
		defer mu.Unlock()
		known.addresses[nodes[i].UUID] = theirs
		for _, address := range theirs {
			known.byAddress[address] = append(known.byAddress[address], nodeAt{nodes[i], address})
		}
		return ctx.Err()
	})
	return known, err
}

// matches is what Ironic has that matches a machine.
type matches struct {
	ports  []Port              // with one of its MACs, in the order of these
	bmcs   []nodeAt            // with one of its BMC's addresses, each node once
	others []Port              // with one of its MACs, of nodes that are other machines
	macs   map[string][]string // of the ports' nodes
}

// match finds what Ironic has that matches a machine.
func (l *nodeLookup) match(ctx context.Context, of Machine) (m matches, err error) {
	var ports knownPorts
	var bmcs knownBMCs
	macs := portMACs(of.MACs)
	if len(macs) > 0 {
		if ports, err = l.ports.get(ctx); err != nil {
			return m, err
		}
	}
	if len(of.BMC) > 0 {
		if bmcs, err = l.bmcs.get(ctx); err != nil {
			return m, err
		}
	}
	m.macs = ports.macs
	for _, mac := range macs {
		for _, p := range ports.byMAC[mac] {
			if p.Node == of.Other || contradicts(of, introspection.Attributes{MACs: ports.macs[p.Node], BMC: bmcs.addresses[p.Node]}) {
				m.others = append(m.others, p)
			} else {
				m.ports = append(m.ports, p)
			}
		}
	}
	m.bmcs = bmcs.at(of.BMC)
	return m, nil
}

// shared returns the MACs that were seen with other machines.
func (m matches) shared() (macs []string) {
	for _, p := range m.others {
		macs = append(macs, p.Address)
	}
	return macs
}

// at returns the nodes that have a BMC with one of the addresses, each once.
func (k knownBMCs) at(addresses []string) (found []nodeAt) {
	for _, address := range addresses {
		for _, b := range k.byAddress[address] {
			if !slices.ContainsFunc(found, func(f nodeAt) bool { return f.node.UUID == b.node.UUID }) {
				found = append(found, b)
			}
		}
	}
	slices.SortFunc(found, func(l, b nodeAt) int { return cmp.Compare(l.node.UUID, b.node.UUID) })
	return found
}

// each calls do for 0 to n-1, at most width at once, and returns what the first
// that failed returned; none begins after that.
func each(ctx context.Context, n, width int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var working sync.WaitGroup
	next := make(chan int) // closed by this function
	for range min(n, width) {
		working.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	working.Wait()
	return context.Cause(ctx)
}

// errStranger is said of a machine that Ironic does not have.
var errStranger = errors.New("Ironic does not have the machine")

// node finds the one node that Ironic has with these attributes, besides which
// of the MACs are its own. Several are a *Problem.
func (l *nodeLookup) node(ctx context.Context, of Machine) (node string, macs []string, err error) {
	m, err := l.match(ctx, of)
	if err != nil {
		return "", nil, err
	}
	var nodes []string
	for _, p := range m.ports {
		nodes = append(nodes, p.Node)
		macs = addMAC(macs, p.Address)
	}
	for _, b := range m.bmcs {
		nodes = append(nodes, b.node.UUID)
	}
	slices.Sort(nodes)
	switch nodes = slices.Compact(nodes); len(nodes) {
	case 0:
		return "", nil, errStranger
	case 1:
		return nodes[0], macs, nil
	default:
		return "", nil, Failed("Ironic has several nodes with attributes %s: %s", pythonAttributes(of.Attributes), pythonList(nodes))
	}
}
