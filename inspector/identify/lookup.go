package identify

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"

	"github.com/trivet-ha/trivet/fsm/ironicports"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// nameQuestions is how many names of BMCs are resolved at once.
const nameQuestions = 16

// Ironic is the bare-metal service as far as it knows machines.
type Ironic interface {
	// Node reads a node by UUID or name; ErrNoNode if there is none.
	Node(ctx context.Context, ref string) (ironic.Node, error)
	// AllPorts lists all ports with UUID, node and address, in lower case: all pages,
	// or an error.
	AllPorts(ctx context.Context) ([]ironic.Port, error)
	// NodesWithBMC lists all nodes with UUID, provision state and driver_info
	// alone: all pages, or an error.
	NodesWithBMC(ctx context.Context) ([]ironic.Node, error)
}

// nodeLookup reads what Ironic has of nodes, without regard to what is under introspection.
type nodeLookup struct {
	ironic   Ironic
	resolver Resolver
	fields   func() []string // of driver_info, besides ipmi_address, that may hold the address of a BMC
	log      *slog.Logger
}

// NewSearch searches in what Ironic has. Any client can make a peer ask, with a document of
// many MACs. So Ironic's lists are read, each once for all who wait for it, and no more
// often than their readings allow.
func NewSearch(ironic Ironic, resolver Resolver, fields func() []string, log *slog.Logger) Search {
	l := &nodeLookup{ironic, resolver, fields, log}
	return Search{Node: l.node, Ports: newSharedRead(l.ports).Get, BMCs: newSharedRead(l.bmcs).Get}
}

func (l *nodeLookup) node(ctx context.Context, node string) (k Known, there bool, err error) {
	n, err := l.ironic.Node(ctx, node)
	if errors.Is(err, ironic.ErrNoNode) {
		return k, false, nil
	}
	k.Serial, k.Provision = SerialIn(n.Properties, n.Extra), n.Provision
	k.BMC, _ = l.addresses(ctx, n) // which logs
	return k, true, err
}

func (l *nodeLookup) ports(ctx context.Context) (Ports, error) {
	ports, err := l.ironic.AllPorts(ctx)
	all := make([]ironicports.Port, len(ports))
	for i, p := range ports {
		all[i] = ironicports.Port{ID: p.UUID, MAC: p.Address, Node: p.Node}
	}
	return NewPorts(all), err
}

func (l *nodeLookup) bmcs(ctx context.Context) (BMCs, error) {
	nodes, err := l.ironic.NodesWithBMC(ctx)
	if err != nil {
		return BMCs{}, err
	}
	known := NewBMCs(len(nodes))
	var mu sync.Mutex
	var asking sync.WaitGroup
	room := make(chan struct{}, nameQuestions)
	for _, n := range nodes {
		room <- struct{}{}
		asking.Go(func() {
			defer func() { <-room }()
			theirs, err := l.addresses(ctx, n)
			mu.Lock()
			defer mu.Unlock()
			known.Add(n.UUID, theirs, Bridged(n.DriverInfo))
			if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.Temporary() {
				known.unnamed[n.UUID] = err
			}
		})
	}
	asking.Wait()
	return known, ctx.Err()
}

// addresses are those of a node's BMC. Names that cannot be resolved have none, as at a start.
func (l *nodeLookup) addresses(ctx context.Context, n ironic.Node) ([]string, error) {
	addresses, err := BMCAddresses(ctx, l.resolver, n.UUID, n.DriverInfo, l.fields())
	if err != nil {
		l.log.Debug("find BMC address of node failed", "node", n.UUID, "err", err)
	}
	return addresses, err
}

// AttributesOf returns by what a node with these ports and BMC addresses will be known, as
// far as the state machine takes it: MACs of ports that may boot by PXE before others, since they
// are let in by these. It logs that some are left out.
func AttributesOf(ports []ironic.Port, bmc []string, log *slog.Logger) introspection.Attributes {
	var all []string
	for _, p := range ironic.BootFirst(ports) {
		all = append(all, p.Address)
	}
	all = PortMACs(all)
	macs := Bounded(all)
	if len(macs) < len(all) {
		log.Warn("node has more ports than are kept: those without pxe_enabled are left out first", "node", ports[0].Node,
			"count", len(all), "limit", len(macs))
	}
	return introspection.Attributes{MACs: macs, BMC: Bounded(bmc)}
}
