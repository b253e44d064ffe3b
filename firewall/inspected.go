package firewall

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Bounds of the look at what Ironic inspects.
const (
	// inspectedEvery is how often it looks: a machine asks for its first address
	// some seconds after it was switched on.
	inspectedEvery = time.Second
	inspectedLimit = 30 * time.Second // one look
	// portsEvery is how many looks later the ports of a node are listed again.
	portsEvery     = 15
	inspectedChunk = 100 // nodes in one entry
)

// Inspections says what Ironic itself inspects.
type Inspections interface {
	// Inspected lists the nodes that it inspects: all of them, or an error.
	Inspected(ctx context.Context) (nodes []string, err error)
	// MACs lists those of a node's ports, in lower case; none for a node that is
	// gone.
	MACs(ctx context.Context, node string) ([]string, error)
}

// Follow is the leader's duty that lets machines boot which Ironic itself
// inspects, as the HA specification has it for introspections here. A look that
// fails changes nothing.
type Follow struct {
	ironic Inspections // nil: nothing may boot but for introspections here
	log    Log
	logger *slog.Logger

	looks int             // belongs to Run
	seen  map[string]bool // nodes whose ports were listed in this leadership
}

// NewFollow returns the duty; without ironic it takes back what another leader,
// configured otherwise, may have let in.
func NewFollow(ironic Inspections, log Log, logger *slog.Logger) *Follow {
	return &Follow{ironic: ironic, log: log, logger: logger}
}

// Run looks until ctx ends. A failure is logged once and tried again. One
// goroutine calls it.
func (f *Follow) Run(ctx context.Context, a Authority) error {
	f.looks, f.seen = 0, make(map[string]bool)
	failed := false
	for range pace.Every(ctx, inspectedEvery) {
		err := f.once(ctx, a)
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case err != nil && !failed:
			f.logger.Warn("list nodes in inspection from Ironic failed, keeping the current list", "err", err)
		case err == nil && failed:
			f.logger.Info("nodes in inspection are listed again")
		}
		failed = err != nil
		if f.ironic == nil && !failed {
			<-ctx.Done() // nothing is left to take back
			return nil
		}
	}
	return nil
}

// once looks and commits the difference.
func (f *Follow) once(ctx context.Context, a Authority) error {
	v, _ := f.log.Changed()
	if v.Admits(introspection.PutInspected{}) != nil {
		return nil // an older peer has never heard of it; the upgrade is under way
	}
	limited, cancel := context.WithTimeout(ctx, inspectedLimit)
	defer cancel()
	put, remove, err := f.difference(limited, v)
	if err != nil {
		return err
	}
	for len(put)+len(remove) > 0 {
		c := introspection.PutInspected{Nodes: put[:min(len(put), inspectedChunk)],
			Remove: remove[:min(len(remove), inspectedChunk)]}
		put, remove = put[len(c.Nodes):], remove[len(c.Remove):]
		res, err := a.Propose(limited, c)
		if err == nil {
			err = res.Err()
		}
		if err != nil {
			return fmt.Errorf("commit what Ironic inspects: %w", err)
		}
	}
	return nil
}

// difference compares what Ironic inspects with the state. The ports of a node
// are listed when it is met first, and every portsEvery looks.
func (f *Follow) difference(ctx context.Context, v fsm.View) (put []introspection.Inspected, remove []string,
	err error) {
	var listed []string
	if f.ironic != nil {
		if listed, err = f.ironic.Inspected(ctx); err != nil {
			return nil, nil, fmt.Errorf("list the nodes: %w", err)
		}
	}
	again := f.looks%portsEvery == 0
	f.looks++
	now := make(map[string]bool, len(listed))
	for _, node := range listed {
		now[node] = true
		old, known := v.Inspected(node)
		if known && f.seen[node] && !again {
			continue
		}
		macs, err := f.ironic.MACs(ctx, node)
		if err != nil {
			return nil, nil, fmt.Errorf("list the ports of node %s: %w", node, err)
		}
		slices.Sort(macs)
		macs = slices.Compact(macs)
		macs = macs[:min(len(macs), introspection.MaxInspectedMACs)] // one machine boots from one of them
		if !known || !slices.Equal(old.MACs, macs) {
			put = append(put, introspection.Inspected{Node: node, MACs: macs})
		}
	}
	for _, old := range v.InspectedNodes() {
		if !now[old.Node] {
			remove = append(remove, old.Node)
		}
	}
	f.seen = now
	return put, remove, nil
}
