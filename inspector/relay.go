package inspector

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/inspector/identify"
)

// How long a ramdisk waits for Ironic's own answer; its post ends after 30 s.
const (
	passLimit = 25 * time.Second
	// introduceLimit is for a document whose node is not known here: if Ironic does
	// not say within it whose it is, the document is kept and its sender goes on.
	introduceLimit = 10 * time.Second
)

// relayIntake takes callbacks that are Ironic's.
type relayIntake struct {
	o       *ServiceOptions
	limited *slog.Logger
}

// relay commits a document that is for Ironic and lets its sender go on; the
// leader hands it on until it is taken. Whose it is, is told by Ironic's ports as
// they are in the state. A machine without such a port, or with such a card that leads to
// its BMC alone, only Ironic finds, by the
// address of its BMC, or discovers: so Ironic is asked at once. If it does not
// answer, the document is kept all the same and its sender is told no UUID.
func (r *relayIntake) relay(ctx context.Context, c InbandCall, m identify.Machine) (InbandAnswer, error) {
	packed, err := r.o.Packer.Pack(c.Body)
	if err != nil {
		return InbandAnswer{}, tooLarge(err)
	}
	v, err := view(ctx, r.o.Log, Linearizable)
	if err != nil {
		return InbandAnswer{}, err
	}
	if v.Admits(relays.Accept{}) != nil {
		return InbandAnswer{}, refuse(http.StatusServiceUnavailable, "A peer of the cluster does not know relays yet; upgrade it")
	}
	if r, ok := v.RelayRepeated(packed.Hash); ok {
		return acceptedFor(r.Node)
	}
	accept := relays.Accept{
		Document: packed, Source: c.Source, Timeout: r.o.Live.Config().Timeout, Keep: keepRelays(r.o.Live.Config()), Node: m.PortOwner(v),
	}
	if accept.Node != "" {
		return r.acceptRelay(ctx, accept)
	}
	return r.introduce(ctx, c, accept)
}

// introduce asks Ironic for its answer to a document whose node is not known
// here, and keeps the document unless Ironic refuses it.
func (r *relayIntake) introduce(ctx context.Context, c InbandCall, accept relays.Accept) (InbandAnswer, error) {
	asking, cancel := context.WithTimeout(ctx, introduceLimit)
	defer cancel()
	answer, err := r.o.Inband.Continue(asking, c)
	outcome, reason := outcomeOf(answer, err)
	switch outcome {
	case relays.OutcomeRefused, relays.OutcomeAbsent:
		return answer, nil
	case relays.OutcomeTaken:
		accept.Tried, accept.Node = outcome, nodeIn(answer.Body)
		if _, err := r.acceptRelay(ctx, accept); err != nil { // for the record alone
			r.o.Logger.Warn("store relayed document failed", "node", accept.Node, "err", err)
		}
		return answer, nil
	case relays.OutcomeLost:
		accept.Tried = outcome
	}
	r.limited.Info("Ironic unreachable: callback of unknown node stored for relay", "source", accept.Source, "reason", reason)
	return r.acceptRelay(ctx, accept)
}

// acceptRelay commits a document, if there is room for it. A refusal that is
// known beforehand costs no entry of the log.
func (r *relayIntake) acceptRelay(ctx context.Context, c relays.Accept) (InbandAnswer, error) {
	if err := r.o.Log.View().RelayRoom(c); err != nil {
		r.limited.Warn("store callback for relay failed, answering 503", "source", c.Source, "node", c.Node, "err", err)
		return InbandAnswer{}, err
	}
	res, err := commitFor(ctx, r.o.Do, c)
	var relayed relays.Relayed
	if err == nil {
		err = res.Decode(&relayed)
	}
	if err != nil {
		return InbandAnswer{}, err
	}
	return acceptedFor(relayed.Node)
}

// pass gives a ramdisk Ironic's own answer. That Ironic cannot be asked, or does
// not let us in, is no word about the callback: the ramdisk is to come again.
func (r *relayIntake) pass(ctx context.Context, c InbandCall) (InbandAnswer, error) {
	if c.Node != "" && !isID(c.Node) {
		return InbandAnswer{}, refuse(http.StatusBadRequest, "Expected a UUID for node_uuid, got %q", clip(c.Node))
	}
	ctx, cancel := context.WithTimeout(ctx, passLimit)
	defer cancel()
	answer, err := r.o.Inband.Continue(ctx, c)
	switch {
	case err != nil:
		return answer, refuse(http.StatusServiceUnavailable, "Ironic cannot be reached: %v", err)
	case answer.Status/100 == 2, answer.Status/100 == 4 && answer.Status != http.StatusUnauthorized && answer.Status != http.StatusForbidden:
		return answer, nil
	default:
		return answer, refuse(http.StatusServiceUnavailable, "Ironic answered %d: %s", answer.Status, answer.Reason)
	}
}

// keepRelays is for how long a document is kept that was handed on: as long as
// reports are, and no shorter than a repeat of it may come.
func keepRelays(conf config.Inspection) time.Duration {
	switch {
	case !conf.StoreData:
		return relays.Repeat
	case conf.ReportExpiry == 0:
		return relays.MaxKeep
	}
	return min(max(conf.ReportExpiry, relays.Repeat), relays.MaxKeep)
}

// outcomeOf says what an attempt to relay a document has led to. A server that
// failed, or a proxy that lost its answer, may have taken it.
func outcomeOf(answer InbandAnswer, err error) (outcome relays.Outcome, reason string) {
	switch {
	case errors.Is(err, ErrNotSent), errors.Is(err, ErrNotAllowed):
		return relays.OutcomeAgain, clip(err.Error())
	case err != nil:
		return relays.OutcomeLost, clip(err.Error())
	case answer.Status/100 == 2:
		return relays.OutcomeTaken, ""
	case answer.Status == http.StatusNotFound:
		outcome = relays.OutcomeAbsent
	case slices.Contains(final(), answer.Status):
		outcome = relays.OutcomeRefused
	case answer.Status >= http.StatusInternalServerError && answer.Status != http.StatusServiceUnavailable:
		outcome = relays.OutcomeLost
	default:
		outcome = relays.OutcomeAgain
	}
	return outcome, clip(answer.Reason)
}

// final are the statuses that say the same however often one asks.
func final() []int {
	return []int{http.StatusBadRequest, http.StatusNotAcceptable, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity}
}

// nodeIn reads the node out of what Ironic answers, "" if it names none.
func nodeIn(body []byte) string {
	var said struct {
		UUID string `json:"uuid"`
	}
	if err := json.Unmarshal(body, &said); err != nil || !isID(said.UUID) {
		return ""
	}
	return strings.ToLower(said.UUID)
}
