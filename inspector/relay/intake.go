package relay

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/internal/pace"
)

// How long a ramdisk waits for Ironic's own answer; its post ends after 30 s.
const (
	passLimit = 25 * time.Second
	// introduceLimit is for a document whose node is not known here: if Ironic does
	// not say within it whose it is, the document is kept and its sender goes on.
	introduceLimit = 10 * time.Second
	// inspectingPause is between two looks at a node that is being inspected: that is over
	// soon, or Ironic waits for its ramdisk.
	inspectingPause = 500 * time.Millisecond
)

// Nodes is Ironic as far as it says how a node's inspection stands.
type Nodes interface {
	// Node reads a node by UUID; ErrNoNode if there is none.
	Node(ctx context.Context, ref string) (ironic.Node, error)
}

// Intake takes callbacks that are Ironic's. Its methods may be called concurrently.
type Intake struct {
	Live    *inspector.LiveSettings
	Log     inspector.Log
	Do      inspector.Doer
	Inband  Ironic
	Nodes   Nodes
	Search  identify.Search // of the machines that the state does not know
	Packer  *blobs.Packer
	Logger  *slog.Logger
	Limited *slog.Logger // for lines that any caller can cause
}

// Relay commits a document that is for Ironic and lets its sender go on; the
// leader hands it on until it is taken. Whose it is, is told by Ironic's ports as
// they are in the state. A machine without such a port, or with such a card that leads to
// its BMC alone, only Ironic finds, by the
// address of its BMC, or discovers: so Ironic is asked at once. If it does not
// answer, the document stays and its sender is told no UUID. A document that
// comes again is the same delivery, unless Ironic waits for its node again.
func (r *Intake) Relay(ctx context.Context, c ironic.InbandCall, m identify.Machine) (ironic.InbandAnswer, error) {
	packed, err := r.Packer.Pack(c.Body)
	if err != nil {
		return ironic.InbandAnswer{}, inspector.TooLarge(err)
	}
	v, err := inspector.ReadView(ctx, r.Log, inspector.Linearizable)
	if err != nil {
		return ironic.InbandAnswer{}, err
	}
	if v.Admits(relays.Accept{}) != nil {
		return ironic.InbandAnswer{},
			inspector.Refuse(http.StatusServiceUnavailable, "A peer of the cluster does not know relays yet; upgrade it")
	}
	accept := relays.Accept{
		Document: packed, Source: c.Source, Timeout: r.Live.Config().Timeout, Keep: keepRelays(r.Live.Config()),
		Node: m.PortOwner(v),
	}
	if earlier, ok := v.RelayRepeated(packed.Hash); ok {
		accept.Node = cmp.Or(earlier.Node, accept.Node)
		wanted := inspectedSince(v, accept.Node, earlier.Sequence) // then the earlier one never reaches Ironic
		switch {
		case earlier.State == relays.Pending:
		case accept.Node == "": // else Ironic may have enrolled the machine by the earlier one
			wanted = earlier.State == relays.Failed && !earlier.Doubt
		default:
			wanted, accept.Unsure = r.awaits(ctx, accept.Node)
		}
		if !wanted {
			return Accepted(accept.Node)
		}
		if accept.After = earlier.Sequence; v.Admits(accept) != nil {
			return r.Pass(ctx, c) // the log cannot keep it yet: Ironic takes it now, or it comes again
		}
	}
	if accept.Node != "" {
		relayed, err := r.commitAccept(ctx, accept)
		if err != nil {
			return ironic.InbandAnswer{}, err
		}
		return Accepted(relayed.Node)
	}
	return r.introduce(ctx, c, m, accept)
}

// awaits reports whether a document that was handed on before is wanted again. It was taken by
// the inspection that Ironic waited for then, or came too late for it, so a node that waits
// does so for another inspection. While one is being inspected the two look the same, and so
// they do where Ironic does not say: then it is handed on, and Ironic, which takes only what it
// waits for, decides. unsure says that it was so.
func (r *Intake) awaits(ctx context.Context, node string) (wanted, unsure bool) {
	ctx, cancel := context.WithTimeout(ctx, introduceLimit)
	defer cancel()
	for {
		n, err := r.Nodes.Node(ctx, node)
		switch {
		case errors.Is(err, ironic.ErrNoNode):
			return false, false
		case err != nil:
			return true, true
		case n.Provision == ironic.InspectWait:
			return true, false
		case n.Provision != ironic.Inspecting:
			return false, false
		}
		if !pace.Wait(ctx, inspectingPause) {
			return true, true
		}
	}
}

// introduce asks Ironic for its answer to a document whose node is not known
// here, and keeps the document unless Ironic refuses it. Ironic may enrol the machine by it,
// so the document is in the log before it is sent: who dies or gives up leaves it in doubt, and
// then no peer sends it again before Ironic shows that it knows the machine.
func (r *Intake) introduce(ctx context.Context, c ironic.InbandCall, m identify.Machine, accept relays.Accept) (
	ironic.InbandAnswer, error) {
	var kept relays.Relayed
	if r.Log.View().Admits(relays.Introduced{}) == nil {
		var err error
		accept.Tried = relays.OutcomeLost
		if kept, err = r.commitAccept(ctx, accept); err != nil {
			return ironic.InbandAnswer{}, err
		}
		if kept.Joined { // another peer asks Ironic
			return Accepted(kept.Node)
		}
	}
	answer, err := r.ask(ctx, c)
	outcome, reason := outcomeOf(answer, err)
	seeking, cancel := context.WithTimeout(ctx, introduceLimit) // else the leader looks, which has the time
	defer cancel()
	outcome = enrolling(seeking, r.Search, m, outcome, answer)
	if err := r.commitIntroduced(ctx, accept, kept, relays.Introduced{Sequence: kept.Sequence, Try: 1, Outcome: outcome,
		Reason: reason, Keep: accept.Keep, Node: nodeIn(answer.Body)}); err != nil {
		r.Logger.Warn("store relayed document failed", "source", accept.Source, "err", err)
		if kept.Sequence.IsZero() && outcome != relays.OutcomeTaken { // no log has it
			return ironic.InbandAnswer{}, err
		}
	}
	switch outcome {
	case relays.OutcomeRefused:
		r.Limited.Warn("Ironic refused callback of unknown node", "source", accept.Source, "reason", reason)
		return forRamdisk(answer)
	case relays.OutcomeAbsent:
		if !accept.After.IsZero() {
			return Accepted(accept.Node) // it waits for no other inspection: this is a repeat
		}
		return answer, nil
	case relays.OutcomeTaken:
		return answer, nil
	}
	r.Limited.Info("Ironic gave no answer: callback of unknown node stored for relay", "source", accept.Source, "reason",
		reason)
	return Accepted("")
}

// ask sends Ironic a document for up to introduceLimit.
func (r *Intake) ask(ctx context.Context, c ironic.InbandCall) (ironic.InbandAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, introduceLimit)
	defer cancel()
	return r.Inband.Continue(ctx, c)
}

// commitIntroduced commits how Ironic answered a document that it was asked about. A cluster whose log
// does not know that yet keeps what is not refused now, for the first time.
func (r *Intake) commitIntroduced(ctx context.Context, accept relays.Accept, kept relays.Relayed,
	c relays.Introduced) error {
	if !kept.Sequence.IsZero() {
		_, err := inspector.Commit(ctx, r.Do, c)
		return err
	}
	switch c.Outcome {
	case relays.OutcomeRefused, relays.OutcomeAbsent:
		return nil
	case relays.OutcomeTaken, relays.OutcomeLost:
		accept.Tried, accept.Node = c.Outcome, c.Node
	}
	_, err := r.commitAccept(ctx, accept)
	return err
}

// commitAccept commits a document, if there is room for it. A refusal that is
// known beforehand costs no entry of the log.
func (r *Intake) commitAccept(ctx context.Context, c relays.Accept) (relayed relays.Relayed, err error) {
	if err := r.Log.View().RelayRoom(c); err != nil {
		r.Limited.Warn("store callback for relay failed, answering 503", "source", c.Source, "node", c.Node, "err", err)
		return relayed, err
	}
	res, err := inspector.Commit(ctx, r.Do, c)
	if err == nil {
		err = res.Decode(&relayed)
	}
	return relayed, err
}

// Pass gives a ramdisk Ironic's own answer. That Ironic cannot be asked, or does
// not let us in, is no word about the callback: the ramdisk is to come again.
func (r *Intake) Pass(ctx context.Context, c ironic.InbandCall) (ironic.InbandAnswer, error) {
	if c.Node != "" && !ironic.IsUUID(c.Node) {
		return ironic.InbandAnswer{},
			inspector.Refuse(http.StatusBadRequest, "Expected a UUID for node_uuid, got %q", inspector.Clip(c.Node))
	}
	ctx, cancel := context.WithTimeout(ctx, passLimit)
	defer cancel()
	answer, err := r.Inband.Continue(ctx, c)
	if err != nil {
		return answer, inspector.Refuse(http.StatusServiceUnavailable, "Ironic cannot be reached: %v", err)
	}
	return forRamdisk(answer)
}
