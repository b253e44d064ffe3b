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

// Bounds of the question whether Ironic knows a machine.
const (
	// portQuestions is how many MACs Ironic is asked for at once.
	portQuestions = 8
	// nameQuestions is how many names of BMCs are resolved at once.
	nameQuestions = 16
)

// acquaintance asks Ironic whether it has a machine, without regard to what is
// under introspection.
type acquaintance struct {
	ironic   Discoverer
	resolver Resolver
	fields   []string // of driver_info, besides ipmi_address
	log      *slog.Logger
}

// ports returns the ports that Ironic has with the MACs, in the order of these.
func (a acquaintance) ports(ctx context.Context, macs []string) ([]Port, error) {
	found := make([][]Port, len(macs))
	err := each(ctx, len(macs), portQuestions, func(ctx context.Context, i int) (err error) {
		found[i], err = a.ironic.PortsAt(ctx, macs[i])
		return err
	})
	return slices.Concat(found...), err
}

// acquainted is a node whose BMC has one of the addresses asked for.
type acquainted struct {
	node    Node
	address string
}

// bmcs returns the nodes that have a BMC with one of the addresses. Names that
// cannot be resolved are nobody's, as at a start.
func (a acquaintance) bmcs(ctx context.Context, addresses []string) (found []acquainted, err error) {
	if len(addresses) == 0 {
		return nil, nil
	}
	nodes, err := a.ironic.NodesWithBMC(ctx)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	err = each(ctx, len(nodes), nameQuestions, func(ctx context.Context, i int) error {
		theirs, err := BMCAddresses(ctx, a.resolver, nodes[i], a.fields)
		if err != nil {
			a.log.Debug("find BMC address of node failed", "node", nodes[i].UUID, "err", err)
		}
		for _, address := range addresses {
			if slices.Contains(theirs, address) {
				mu.Lock()
				defer mu.Unlock()
				found = append(found, acquainted{nodes[i], address})
				break
			}
		}
		return ctx.Err()
	})
	slices.SortFunc(found, func(a, b acquainted) int { return cmp.Compare(a.node.UUID, b.node.UUID) })
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
func (a acquaintance) node(ctx context.Context, of fsm.Attributes) (node string, macs []string, err error) {
	ports, err := a.ports(ctx, of.MACs)
	if err != nil {
		return "", nil, err
	}
	bmcs, err := a.bmcs(ctx, of.BMC)
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
