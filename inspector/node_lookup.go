package inspector

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/trivet-ha/trivet/fsm"
)

// nameQuestions is how many names of BMCs are resolved at once.
const nameQuestions = 16

// nodeLookup knows which machines Ironic has, without regard to what is under
// introspection. Anybody can make a peer ask, with a document of many MACs. So
// Ironic's lists are read, each once for all who wait for it, and no more often
// than their readings allow. No answer is older than its question.
type nodeLookup struct {
	ports *sharedRead[map[string][]Port]   // by MAC
	bmcs  *sharedRead[map[string][]nodeAt] // by address
}

// newNodeLookup reads from Ironic. fields are those of driver_info, besides
// ipmi_address, that may hold the address of a BMC.
func newNodeLookup(ironic Discoverer, resolver Resolver, fields func() []string, log *slog.Logger) *nodeLookup {
	return &nodeLookup{
		ports: newSharedRead(func(ctx context.Context) (map[string][]Port, error) {
			ports, err := ironic.AllPorts(ctx)
			byMAC := make(map[string][]Port, len(ports))
			for _, p := range ports {
				byMAC[p.Address] = append(byMAC[p.Address], p)
			}
			return byMAC, err
		}),
		bmcs: newSharedRead(func(ctx context.Context) (map[string][]nodeAt, error) {
			nodes, err := ironic.NodesWithBMC(ctx)
			if err != nil {
				return nil, err
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

// byBMC files nodes under their BMCs' addresses. Names that cannot be resolved
// are nobody's, as at a start.
func byBMC(ctx context.Context, nodes []Node, resolver Resolver, fields []string, log *slog.Logger) (map[string][]nodeAt, error) {
	var mu sync.Mutex
	found := make(map[string][]nodeAt, len(nodes))
	err := each(ctx, len(nodes), nameQuestions, func(ctx context.Context, i int) error {
		theirs, err := BMCAddresses(ctx, resolver, nodes[i], fields)
		if err != nil {
			log.Debug("find BMC address of node failed", "node", nodes[i].UUID, "err", err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, address := range theirs {
			found[address] = append(found[address], nodeAt{nodes[i], address})
		}
		return ctx.Err()
	})
	return found, err
}

// portsAt returns the ports that Ironic has with the MACs, in the order of these.
func (l *nodeLookup) portsAt(ctx context.Context, macs []string) (ports []Port, err error) {
	if len(macs) == 0 {
		return nil, nil
	}
	byMAC, err := l.ports.get(ctx)
	for _, mac := range macs {
		ports = append(ports, byMAC[mac]...)
	}
	return ports, err
}

// bmcsAt returns the nodes that have a BMC with one of the addresses, each once.
func (l *nodeLookup) bmcsAt(ctx context.Context, addresses []string) (found []nodeAt, err error) {
	if len(addresses) == 0 {
		return nil, nil
	}
	byAddress, err := l.bmcs.get(ctx)
	for _, address := range addresses {
		for _, b := range byAddress[address] {
			if !slices.ContainsFunc(found, func(f nodeAt) bool { return f.node.UUID == b.node.UUID }) {
				found = append(found, b)
			}
		}
	}
	slices.SortFunc(found, func(l, b nodeAt) int { return cmp.Compare(l.node.UUID, b.node.UUID) })
	return found, err
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

// noMAC is what interfaces have that have none.
const noMAC = "00:00:00:00:00:00"

// ownMACs leaves out MACs that many machines have: that of loopback interfaces,
// and those of groups.
func ownMACs(macs []string) (own []string) {
	for _, mac := range macs {
		group := mac[1]&1 == 1 // the last bit of the first byte: digits and letters are odd like their values, but for the letters
		if 'a' <= mac[1] {
			group = !group
		}
		if mac != noMAC && !group {
			own = append(own, mac)
		}
	}
	return own
}

// errStranger is said of a machine that Ironic does not have.
var errStranger = errors.New("Ironic does not have the machine")

// node finds the one node that Ironic has with these attributes, besides which
// of the MACs are its own. Several are a *Problem.
func (l *nodeLookup) node(ctx context.Context, of fsm.Attributes) (node string, macs []string, err error) {
	ports, err := l.portsAt(ctx, of.MACs)
	if err != nil {
		return "", nil, err
	}
	bmcs, err := l.bmcsAt(ctx, of.BMC)
	if err != nil {
		return "", nil, err
	}
	var nodes []string
	for _, p := range ports {
		nodes = append(nodes, p.Node)
		macs = addMAC(macs, p.Address)
	}
	for _, b := range bmcs {
		nodes = append(nodes, b.node.UUID)
	}
	slices.Sort(nodes)
	switch nodes = slices.Compact(nodes); len(nodes) {
	case 0:
		return "", nil, errStranger
	case 1:
		return nodes[0], macs, nil
	default:
		return "", nil, Failed("Ironic has several nodes with attributes %s: %s", pythonAttributes(of), pythonList(nodes))
	}
}
