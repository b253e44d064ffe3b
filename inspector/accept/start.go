package accept

import (
	"context"
	"errors"
	"net/http"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// Start begins the introspection of a node, known by UUID or name. With
// manageBoot Trivet sets the boot device and the power, and Start returns once
// that is accepted; without, it returns when the node may call back. Its own checks are
// the synchronous part of docs/contract.md#starting.
func (s *Service) Start(ctx context.Context, ref string, manageBoot bool) error {
	if manageBoot && !s.o.Live.Config().CanManageBoot {
		return inspector.Refuse(http.StatusBadRequest,
			"Managed boot is requested, but this installation cannot manage boot ((can_manage_boot set to False)")
	}
	node, err := readNode(ctx, s.o.Ironic, ref)
	if err != nil {
		return err
	}
	if err := inspector.CheckProvision(node, s.o.Live.Config().Processing.PermitActiveIntrospection); err != nil {
		return inspector.Refuse(http.StatusBadRequest, "%v", err)
	}
	if manageBoot {
		ok, reason, err := s.o.Ironic.PowerValid(ctx, node.UUID)
		if err != nil {
			return ironicRefusal(err)
		}
		if !ok {
			return inspector.Refuse(http.StatusBadRequest,
				"Failed validation of power interface: Validation failed for required interfaces of node %s: power (%s)",
				node.UUID, reason)
		}
	}
	attributes, err := s.attributes(ctx, node)
	if err != nil {
		return inspector.Refuse(http.StatusBadRequest, "%v", err)
	}
	res, err := inspector.Commit(ctx, s.o.Do, introspection.Start{
		Node: node.UUID, Event: introspection.EventStart, ManageBoot: manageBoot, Timeout: s.o.Live.Config().Timeout,
		Attributes: attributes,
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

// attributes collects by what the node's callback will be known. Ports that
// cannot be listed now are the worker's business, which tries harder. An address
// of the BMC that cannot be read is a *Problem: the machine's callback might not
// be found to be this node's, and with discovery another node be made of it.
func (s *Service) attributes(ctx context.Context, node ironic.Node) (a introspection.Attributes, err error) {
	bmc, err := identify.BMCAddresses(ctx, s.o.Resolver, node.UUID, node.DriverInfo, s.o.Live.BmcFields())
	if problem, ok := errors.AsType[*document.Problem](err); ok {
		return a, problem
	}
	if err != nil {
		s.o.Logger.Warn("find BMC address of node failed; it is recognised by MACs alone", "node", node.UUID, "err", err)
	}
	ports, err := s.o.Ironic.Ports(ctx, node.UUID)
	if err != nil {
		s.o.Logger.Info("list ports from Ironic failed; the worker retries", "node", node.UUID, "err", err)
	}
	return identify.AttributesOf(ports, bmc, s.o.Logger), nil
}

// started waits until the start has been carried out and returns its failure.
func (s *Service) started(ctx context.Context, node string, request fencing.Token) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	v, err := s.o.Notifier.Wait(ctx, func(v fsm.View) bool { return ended(v, request) })
	if err != nil {
		return inspector.Refuse(http.StatusServiceUnavailable,
			"The introspection of node %s was accepted and has not begun within %v", node, answerLimit)
	}
	if rec, ok := v.Record(node); ok && rec.State == introspection.NodeError && rec.Begun == request {
		return inspector.Refuse(http.StatusBadRequest, "%s", rec.Error)
	}
	return nil
}
