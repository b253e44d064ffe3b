package inspector

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

// Values of the search for a callback's node.
const (
	// findTries is how often a callback is looked up: another peer may make or
	// delete a record while this one is about to.
	findTries = 4
	// doorHookLimit is how long one hook may look at data whose node is not known.
	doorHookLimit = 5 * time.Second
)

// caller is a ramdisk whose node is looked for.
type caller struct {
	data     *Document
	machine  Machine
	document blobs.Hash
	bytes    int // of the body
}

// finder finds the node that a ramdisk's data belongs to, and makes a record where no
// operator has started its introspection.
type finder struct {
	o        *ServiceOptions
	limited  *slog.Logger
	machines *nodeLookup // which ones Ironic has
}

// find returns the node that a ramdisk's data belongs to, as it stands in v.
// active and lookUp are the result of LookUp. A machine that matches no node under
// introspection may have got its port since the start, may be known to Ironic, or may
// be discovered; then a record is made. errStale asks for another view.
func (f *finder) find(ctx context.Context, v fsm.View, c caller, active string, lookUp error) (node string, err error) {
	m := c.machine
	var unknown *unknownError
	switch {
	case lookUp == nil:
		return active, nil
	case !errors.As(lookUp, &unknown):
		return "", f.unfound(ctx, c, lookUpLine+lookUp.Error())
	}
	if v.Introspecting() {
		node, err = f.late(ctx, v, m)
		if problem, ok := asProblem(err); ok {
			return "", f.unfound(ctx, c, lookUpLine+problem.Text)
		}
		if !errors.Is(err, errStranger) {
			return node, err
		}
	}
	if f.o.Live.Config().Processing.PermitActiveIntrospection {
		node, err = f.adopt(ctx, v, m)
		if !errors.Is(err, errStranger) {
			return node, err
		}
	}
	switch f.o.Live.Config().Processing.NodeNotFoundHook {
	case "enroll":
		return f.discover(ctx, v, c)
	case "example":
		f.limited.Info("callback from unknown node", "attributes", pythonAttributes(m.Attributes))
		return "", f.unfound(ctx, c, "Node not found hook returned nothing")
	default:
		return "", f.unfound(ctx, c, lookUpLine+unknown.Error())
	}
}

// errStale is said of a view that others have overtaken.
var errStale = errors.New("the state has changed since it was looked at")

// unfound refuses a callback whose node is not found: what hooks object to comes
// first, as in the original. No request counts the processes that die of the
// data, so that hooks do not look at a suspect here.
func (f *finder) unfound(ctx context.Context, c caller, line string) error {
	lines := []string{line}
	if f.o.Suspects != nil && f.o.Suspects.Examine(c.document) {
		defer f.o.Suspects.Clear(c.document)
		run := hookRunner{hooks: f.o.Live.Now().Hooks, limit: doorHookLimit, log: f.o.Logger}
		err := computing(ctx, c.bytes, func() error {
			failures, err := run.objections(ctx, c.data, func(Hook) error { return ctx.Err() })
			lines = append(failures, line)
			return err
		})
		if err != nil {
			return err
		}
	}
	return refuse(http.StatusBadRequest, "%s", clip(failuresHead+strings.Join(lines, "\n")))
}

// late returns the one node under introspection that has a port in Ironic with a
// MAC of the machine: a port that was created after the start is not among the
// attributes that the start filed. Ironic is asked only while introspections are
// under way.
func (f *finder) late(ctx context.Context, v fsm.View, of Machine) (node string, err error) {
	m, err := f.machines.match(ctx, of)
	if err != nil {
		return "", ironicRefusal(err)
	}
	var waiting []string
	for _, p := range m.ports {
		if rec, there := v.Record(p.Node); there && rec.State.Active() && !slices.Contains(waiting, p.Node) {
			waiting = append(waiting, p.Node)
		}
	}
	switch len(waiting) {
	case 0:
		return "", errStranger
	case 1:
		f.o.Logger.Info("callback found by a port that was created after the start", "node", waiting[0])
		return waiting[0], nil
	default:
		return "", ambiguous(of.Attributes, waiting)
	}
}

// adopt makes a record for a node that carries a workload and calls without
// having been asked to, as its operator permits. Its power is never touched.
func (f *finder) adopt(ctx context.Context, v fsm.View, m Machine) (node string, err error) {
	m.Attributes = bounded(m.Attributes)
	node, macs, err := f.machines.node(ctx, m)
	if err != nil {
		return "", unknownTo(err)
	}
	whole, err := readNode(ctx, f.o.Ironic, node)
	if err != nil {
		return "", err
	}
	if !deployed(whole) {
		return "", refuse(http.StatusBadRequest, "Node %s is not active, its provision state is %s", whole.UUID, whole.Provision)
	}
	return whole.UUID, f.record(ctx, v, introspection.Start{
		Node: whole.UUID, Event: introspection.EventAdopt, Timeout: f.o.Live.Config().Timeout, Attributes: introspection.Attributes{MACs: macs, BMC: m.BMC},
	})
}

// bounded cuts attributes to what Ironic is asked for and a record takes.
func bounded(a introspection.Attributes) introspection.Attributes {
	a.MACs = a.MACs[:min(len(a.MACs), maxAttributes)]
	a.BMC = a.BMC[:min(len(a.BMC), maxAttributes)]
	return a
}

// discover makes a record for an unknown machine; a worker makes the node, before
// the data is processed.
func (f *finder) discover(ctx context.Context, v fsm.View, c caller) (node string, err error) {
	all := MachineOf(c.data)
	m, err := f.machines.match(ctx, all)
	if err != nil {
		return "", unknownTo(err)
	}
	node, a, err := discovered(c.data, f.o.Live.Now().Hooks, m.shared())
	if err == nil {
		err = m.stranger(node, a.MACs, all.MACs)
	}
	if problem, ok := asProblem(err); ok {
		return "", f.unfound(ctx, c, notFoundLine(problem))
	}
	if err != nil {
		return "", unknownTo(err)
	}
	return node, f.record(ctx, v, introspection.Start{
		Node: node, Event: introspection.EventEnroll, ManageBoot: true, Timeout: f.o.Live.Config().Timeout, Attributes: a,
	})
}

// unknownTo makes an answer of an Ironic that does not say whom it knows.
func unknownTo(err error) error {
	if problem, ok := asProblem(err); ok {
		return refuse(http.StatusBadRequest, "%s", problem.Text)
	}
	if errors.Is(err, errStranger) {
		return err
	}
	return ironicRefusal(err)
}

// record makes a record. One of an introspection that has ended gives way, as at
// a start; one that has not was made by another peer a moment ago.
func (f *finder) record(ctx context.Context, v fsm.View, start introspection.Start) error {
	if err := admits(f.o.Log, start.Event); err != nil {
		return err
	}
	if rec, there := v.Record(start.Node); there && !rec.State.Active() {
		res, err := f.o.Do.Do(ctx, "", introspection.DeleteNode{Node: start.Node})
		if err != nil {
			return err
		}
		if res.Code == fsm.Conflict || res.Code == fsm.NotFound {
			return errStale
		}
		if err := res.Err(); err != nil {
			return err
		}
	}
	res, err := f.o.Do.Do(ctx, "", start)
	if err != nil {
		return err
	}
	if res.Code != fsm.IllegalTransition {
		return res.Err()
	}
	now, err := view(ctx, f.o.Log, Linearizable)
	if err != nil {
		return err
	}
	if rec, there := now.Record(start.Node); !there || !rec.State.Active() {
		return errStale
	}
	return nil // the callback is that introspection's
}
