package inspector

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/identify"
)

// startable are the provision states in which a node may be introspected
// (docs/contract.md#starting), in the order the original prints them.
var startable = [...]string{"manageable", "enroll", "inspect wait", "inspecting", "inspect failed"}

// checkProvision refuses a node that may soon carry a workload, and one that
// carries it unless that is permitted. The text names the same states either way,
// as the original's does.
func checkProvision(n Node, permitActive bool) error {
	if slices.Contains(startable[:], strings.ToLower(n.Provision)) || permitActive && deployed(n) {
		return nil
	}
	return Failed("Invalid provision state for introspection: \"%s\", valid states are \"['%s']\"",
		n.Provision, strings.Join(startable[:], "', '"))
}

// Start begins the introspection of a node, known by UUID or name. With
// manageBoot Trivet sets the boot device and the power, and Start returns once
// that is accepted; without, it returns when the node may call back.
func (s *Service) Start(ctx context.Context, ref string, manageBoot bool) error {
	if manageBoot && !s.o.Live.Config().CanManageBoot {
		return refuse(http.StatusBadRequest, "Managed boot is requested, but this installation cannot manage boot ((can_manage_boot set to False)")
	}
	node, err := readNode(ctx, s.o.Ironic, ref)
	if err != nil {
		return err
	}
	if err := s.checkStart(ctx, node, manageBoot); err != nil {
		return err
	}
	attributes, err := s.attributes(ctx, node)
	if err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	res, err := commitFor(ctx, s.o.Do, introspection.Start{
		Node: node.UUID, Event: introspection.EventStart, ManageBoot: manageBoot, Timeout: s.o.Live.Config().Timeout, Attributes: attributes,
	})
	if err != nil || manageBoot {
		return illegal(err)
	}
	var queued introspection.Queued
	if err := res.Decode(&queued); err != nil {
		return err
	}
	return s.started(ctx, node.UUID, queued.Request)
}

// illegal gives a refused transition its place in the contract.
func illegal(err error) error {
	var refused *fsm.Error
	if errors.As(err, &refused) && refused.Code == fsm.IllegalTransition {
		return refuse(http.StatusBadRequest, "%s", refused.Message)
	}
	return err
}

// checkStart is the synchronous part of docs/contract.md#starting.
func (s *Service) checkStart(ctx context.Context, node Node, manageBoot bool) error {
	if err := checkProvision(node, s.o.Live.Config().Processing.PermitActiveIntrospection); err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	if !manageBoot {
		return nil
	}
	ok, reason, err := s.o.Ironic.PowerValid(ctx, node.UUID)
	if err != nil {
		return ironicRefusal(err)
	}
	if !ok {
		return refuse(http.StatusBadRequest,
			"Failed validation of power interface: Validation failed for required interfaces of node %s: power (%s)", node.UUID, reason)
	}
	return nil
}

// attributes collects by what the node's callback will be known. Ports that
// cannot be listed now are the worker's business, which tries harder. An address
// of the BMC that cannot be read is a *Problem: the machine's callback might not
// be found to be this node's, and with discovery another node be made of it.
func (s *Service) attributes(ctx context.Context, node Node) (a introspection.Attributes, err error) {
	bmc, err := identify.BMCAddresses(ctx, s.o.Resolver, node.UUID, node.DriverInfo, s.o.Live.bmcFields())
	if problem, ok := asProblem(err); ok {
		return a, problem
	}
	if err != nil {
		s.o.Logger.Warn("find BMC address of node failed; it is recognised by MACs alone", "node", node.UUID, "err", err)
	}
	ports, err := s.o.Ironic.Ports(ctx, node.UUID)
	if err != nil {
		s.o.Logger.Info("list ports from Ironic failed; the worker retries", "node", node.UUID, "err", err)
	}
	return identified(ports, bmc), nil
}

// identified returns by what a node with these ports and BMC addresses will be known, as
// far as the state machine takes it.
func identified(ports []Port, bmc []string) introspection.Attributes {
	var macs []string
	for _, p := range ports {
		macs = append(macs, p.Address)
	}
	return introspection.Attributes{MACs: identify.Bounded(identify.PortMACs(macs)), BMC: identify.Bounded(bmc)}
}

// started waits until the start has been carried out and returns its failure.
func (s *Service) started(ctx context.Context, node string, request fencing.Token) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	v, err := s.o.Notifier.Wait(ctx, func(v fsm.View) bool { return ended(v, request) })
	if err != nil {
		return refuse(http.StatusServiceUnavailable, "The introspection of node %s was accepted and has not begun within %v", node, answerLimit)
	}
	if rec, ok := v.Record(node); ok && rec.State == introspection.NodeError && rec.Begun == request {
		return refuse(http.StatusBadRequest, "%s", rec.Error)
	}
	return nil
}

// ended reports whether a request is out of the queue.
func ended(v fsm.View, request fencing.Token) bool {
	_, queued := v.QueuedRequest(request)
	return !queued && covers(v, request)
}
