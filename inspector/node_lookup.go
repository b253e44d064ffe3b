package inspector

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/inspector/identify"
)

// nameQuestions is how many names of BMCs are resolved at once.
const nameQuestions = 16

// nodeLookup reads what Ironic has of nodes, without regard to what is under introspection.
type nodeLookup struct {
	ironic   Ironic
	resolver identify.Resolver
	fields   func() []string // of driver_info, besides ipmi_address, that may hold the address of a BMC
	log      *slog.Logger
}

// newSearch searches in what Ironic has. Any client can make a peer ask, with a document of
// many MACs. So Ironic's lists are read, each once for all who wait for it, and no more
// often than their readings allow.
func newSearch(ironic Ironic, resolver identify.Resolver, fields func() []string, log *slog.Logger) identify.Search {
	l := &nodeLookup{ironic, resolver, fields, log}
	return identify.Search{Node: l.node, Ports: newSharedRead(l.ports).get, BMCs: newSharedRead(l.bmcs).get}
}

func (l *nodeLookup) node(ctx context.Context, node string) (k identify.Known, there bool, err error) {
	n, err := l.ironic.Node(ctx, node)
	if errors.Is(err, ErrNoNode) {
		return k, false, nil
	}
	k.Serial, k.BMC = identify.SerialIn(n.Properties, n.Extra), l.addresses(ctx, n)
	return k, true, err
}

func (l *nodeLookup) ports(ctx context.Context) (identify.Ports, error) {
	ports, err := l.ironic.AllPorts(ctx)
	all := make([]ironicports.Port, len(ports))
	for i, p := range ports {
		all[i] = ironicports.Port{ID: p.UUID, MAC: p.Address, Node: p.Node}
	}
	return identify.NewPorts(all), err
}

func (l *nodeLookup) bmcs(ctx context.Context) (identify.BMCs, error) {
	nodes, err := l.ironic.NodesWithBMC(ctx)
	if err != nil {
		return identify.BMCs{}, err
	}
	known := identify.NewBMCs(len(nodes))
	var mu sync.Mutex
	var asking sync.WaitGroup
	room := make(chan struct{}, nameQuestions)
	for _, n := range nodes {
		room <- struct{}{}
		asking.Go(func() {
			defer func() { <-room }()
			theirs := l.addresses(ctx, n)
			mu.Lock()
			defer mu.Unlock()
			known.Add(n.UUID, theirs, identify.Bridged(n.DriverInfo))
		})
	}
	asking.Wait()
	return known, ctx.Err()
}

// addresses are those of a node's BMC. Names that cannot be resolved are left out, as at
// a start.
func (l *nodeLookup) addresses(ctx context.Context, n Node) []string {
	addresses, err := identify.BMCAddresses(ctx, l.resolver, n.UUID, n.DriverInfo, l.fields())
	if err != nil {
		l.log.Debug("find BMC address of node failed", "node", n.UUID, "err", err)
	}
	return addresses
}
