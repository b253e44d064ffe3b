package firewall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Bounds of the look at what Ironic inspects.
const (
	// inspectedEvery is how often it looks: a machine asks for its first address
	// some seconds after it was switched on.
	inspectedEvery = time.Second
	inspectedLimit = 30 * time.Second // the list of nodes, and a commit
	// portsLimit bounds one question for the ports of a node, and portsPause is after
	// how long a look begins no more of them: the next one hears first whose
	// inspection began or ended, and goes on with the nodes that wait longest.
	portsLimit = 10 * time.Second
	portsPause = 5 * time.Second
	// portsEvery is how many looks later the ports of a node are listed again.
	portsEvery     = 15
	inspectedChunk = 100 // nodes in one entry
	// inspectedTold is for how long looks fail until Err tells it.
	inspectedTold = 15 * time.Second
	// inspectedKept is for how long what was read boots if it cannot be read again: as long as
	// an introspection here may last. It is said to the log every inspectedSaid, while
	// machines are let in.
	inspectedKept = 15 * time.Minute
	inspectedSaid = time.Minute
)

// Inspections says what Ironic itself inspects.
type Inspections interface {
	// Inspected lists the nodes that it inspects: all of them, or an error.
	Inspected(ctx context.Context) (nodes []string, err error)
	// MACs lists those of a node's ports, in lower case, those that may boot by PXE first; none
	// for a node that is gone.
	MACs(ctx context.Context, node string) ([]string, error)
}

// Follow is the leader's duty that lets machines boot which Ironic itself
// inspects, as the HA specification has it for introspections here. While the list of
// nodes fails, those of the last one are let in for inspectedKept; a node whose ports
// cannot be listed stays as it is, and keeps no other one waiting.
type Follow struct {
	ironic Inspections // nil: nothing may boot but for introspections here
	log    Log
	logger *slog.Logger

	looks int                   // belongs to Run
	asked map[string]portsAsked // belongs to Run: nodes of the newest list
	seen  fencing.Token         // belongs to Run: newest entry before that list; zero: there is none
	said  time.Time             // belongs to Run: when this leadership said last for how long they are let in

	mu     sync.Mutex
	err    error     // of the newest look
	failed time.Time // since when looks fail; zero: they do not
}

// portsAsked is what one leadership knows of the ports of a node.
type portsAsked struct {
	look   int  // that asked for them last
	listed bool // it was told them, and they are committed
	// after is the newest entry before the last list that did not have the node.
	after fencing.Token
}

// NewFollow returns the duty; without ironic it takes back what another leader,
// configured otherwise, may have let in.
func NewFollow(ironic Inspections, log Log, logger *slog.Logger) *Follow {
	return &Follow{ironic: ironic, log: log, logger: logger}
}

// Err returns why looks of this peer have failed for a while, at all nodes or at one of
// them; nil if they have not. It may be called concurrently.
func (f *Follow) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed.IsZero() || time.Since(f.failed) < inspectedTold {
		return nil
	}
	return f.err
}

// set notes how a look ended.
func (f *Follow) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	if err == nil {
		f.failed = time.Time{}
	} else if f.failed.IsZero() {
		f.failed = time.Now()
	}
}

// Run looks until ctx ends. A failure is logged once and tried again. One
// goroutine calls it.
func (f *Follow) Run(ctx context.Context, a Authority) error {
	f.looks, f.asked, f.seen, f.said = 0, make(map[string]portsAsked), 0, time.Time{}
	defer f.set(nil) // the next leader looks
	failed, ended := false, false
	for range pace.Every(ctx, inspectedEvery) {
		err := f.once(ctx, a)
		if ctx.Err() != nil {
			return nil
		}
		f.set(err)
		switch {
		case err != nil && !failed:
			f.logger.Warn("read from Ironic which nodes it inspects failed, keeping those that could not be read",
				"limit", inspectedKept, "err", err)
		case errors.Is(err, errInspectedEnded) && !ended:
			f.logger.Warn("no machine is let in for Ironic's own inspections: the nodes were not read for too long",
				"limit", inspectedKept, "err", err)
		case err == nil && failed:
			f.logger.Info("nodes in inspection are listed again")
		}
		failed, ended = err != nil, errors.Is(err, errInspectedEnded)
		if f.ironic == nil && !failed {
			<-ctx.Done() // nothing is left to take back
			return nil
		}
	}
	return nil
}

// once looks and commits the difference: first whose inspection has ended, which needs
// no further question, then whose ports are others than are known. The error is that of
// the first node if those of some could not be listed.
func (f *Follow) once(ctx context.Context, a Authority) error {
	v, _ := f.log.Changed()
	if v.Admits(introspection.PutInspected{}) != nil {
		return nil // an older peer has never heard of it; the upgrade is under way
	}
	var listed []string
	if f.ironic != nil {
		limited, cancel := context.WithTimeout(ctx, inspectedLimit)
		defer cancel()
		var err error
		if listed, err = f.ironic.Inspected(limited); err != nil {
			return f.unread(ctx, a, v, fmt.Errorf("list the nodes: %w", err))
		}
	}
	if len(listed) > 0 && time.Since(f.said) >= inspectedSaid {
		if err := f.say(ctx, a, v); err != nil {
			return err
		}
	}
	now := make(map[string]portsAsked, len(listed))
	for _, node := range listed {
		at, before := f.asked[node]
		if !before {
			at.after = f.seen
		}
		now[node] = at
	}
	f.asked, f.seen = now, fencing.At(v.Base(), v.Index())
	var remove []string
	for _, old := range v.InspectedNodes() {
		if _, inspected := now[old.Node]; !inspected {
			remove = append(remove, old.Node)
		}
	}
	for nodes := range slices.Chunk(remove, inspectedChunk) {
		if err := commitInspected(ctx, a, introspection.PutInspected{Remove: nodes}); err != nil {
			return err
		}
	}
	return f.listPorts(ctx, a, v)
}

// errInspectedEnded says that nothing of Ironic's is let in, as that could not be read.
var errInspectedEnded = errors.New("none is let in until they are listed")

// unread is a look whose list of nodes failed with err. What an older version recorded has no end
// yet, and gets one.
func (f *Follow) unread(ctx context.Context, a Authority, v fsm.View, err error) error {
	if len(v.InspectedNodes()) == 0 {
		return fmt.Errorf("%w: %w", errInspectedEnded, err)
	}
	if !fsm.InspectedEnds(v) {
		err = errors.Join(err, f.say(ctx, a, v))
	}
	return err
}

// say says for how long what Ironic inspects is let in, before more of it is. An older peer has
// never heard of it.
func (f *Follow) say(ctx context.Context, a Authority, v fsm.View) error {
	keep := introspection.KeepInspected{For: inspectedKept}
	if v.Admits(keep) != nil {
		return nil
	}
	err := commitInspected(ctx, a, keep)
	if err == nil {
		f.said = time.Now()
	}
	return err
}

// due returns the nodes whose ports are to be listed, those first that wait longest: new
// ones, then those that another leader let in. One is listed when it is met first in a
// leadership, every portsEvery looks, and again if that failed.
func (f *Follow) due(v fsm.View) (nodes []string) {
	for _, node := range slices.Sorted(maps.Keys(f.asked)) {
		at := f.asked[node]
		if _, known := v.Inspected(node); !known || !at.listed || f.looks-at.look >= portsEvery {
			nodes = append(nodes, node)
		}
	}
	rank := func(node string) int {
		if _, known := v.Inspected(node); !known && f.asked[node].look == 0 {
			return -1
		}
		return f.asked[node].look
	}
	slices.SortStableFunc(nodes, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return nodes
}

// listPorts lists the ports of the nodes that are due and commits what it found, as it
// goes.
func (f *Follow) listPorts(ctx context.Context, a Authority, v fsm.View) (first error) {
	f.looks++
	began := time.Now()
	committed := began
	var found []introspection.Inspected
	commit := func() error {
		if len(found) == 0 {
			return nil
		}
		err := commitInspected(ctx, a, introspection.PutInspected{Nodes: found})
		for _, i := range found {
			f.noteAsked(i.Node, err == nil)
		}
		found, committed = nil, time.Now()
		return err
	}
	for _, node := range f.due(v) {
		if ctx.Err() != nil || time.Since(began) >= portsPause {
			break
		}
		old, known := v.Inspected(node)
		// Those that are new do not wait for the answers about any other.
		if known || f.asked[node].look > 0 || len(found) == inspectedChunk || time.Since(committed) >= inspectedEvery {
			if err := commit(); err != nil {
				return err
			}
		}
		macs, more, err := f.macs(ctx, node)
		f.noteAsked(node, err == nil)
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		if !known || !slices.Equal(old.MACs, macs) {
			i := introspection.Inspected{Node: node, MACs: macs}
			if v.ClusterVersion() >= introspection.InspectedAfterSince {
				i.After = f.asked[node].after
			}
			found = append(found, i)
			if more > 0 {
				f.logger.Warn("node in Ironic's inspection has more ports than are let in: those without pxe_enabled are left out first",
					"node", node, "count", len(macs)+more, "limit", len(macs))
			}
		}
	}
	return cmp.Or(commit(), first)
}

// noteAsked notes whether this look was told the ports of a node.
func (f *Follow) noteAsked(node string, listed bool) {
	at := f.asked[node]
	at.look, at.listed = f.looks, listed
	f.asked[node] = at
}

// macs lists those of a node that are let in, in order, and says how many more there are.
func (f *Follow) macs(ctx context.Context, node string) (macs []string, more int, err error) {
	limited, cancel := context.WithTimeout(ctx, portsLimit)
	defer cancel()
	all, err := f.ironic.MACs(limited, node)
	if err != nil {
		return nil, 0, fmt.Errorf("list the ports of node %s: %w", node, err)
	}
	for _, mac := range all {
		if !slices.Contains(macs, mac) {
			macs = append(macs, mac)
		}
	}
	more = max(len(macs)-introspection.MaxInspectedMACs, 0)
	macs = macs[:len(macs)-more]
	slices.Sort(macs)
	return macs, more, nil
}

// commitInspected commits what Ironic inspects, or does not any more.
func commitInspected(ctx context.Context, a Authority, c fsm.Command) error {
	limited, cancel := context.WithTimeout(ctx, inspectedLimit)
	defer cancel()
	if err := commit(limited, a, c); err != nil {
		return fmt.Errorf("commit what Ironic inspects: %w", err)
	}
	return nil
}
