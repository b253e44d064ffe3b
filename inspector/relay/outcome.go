package relay

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// Ironic is the endpoint of Ironic's own in-band inspection, which takes callbacks
// of ramdisks. Its methods may be called concurrently.
type Ironic interface {
	// Continue sends a callback to Ironic: one try, which asks Allowed(ctx). Any
	// answer is no error. After an error Ironic may have taken it, unless the
	// error is ErrNotSent or ErrNotAllowed.
	Continue(ctx context.Context, c ironic.InbandCall) (ironic.InbandAnswer, error)
}

// Accepted is the answer of Ironic's oldest API. That a node is not known is
// null, which ironic-python-agent takes for what it is and looks its node up by
// MACs.
func Accepted(node string) (ironic.InbandAnswer, error) {
	var known *string
	if node != "" {
		known = &node
	}
	body, err := json.Marshal(struct {
		Accepted *string `json:"uuid"`
	}{known})
	return ironic.InbandAnswer{Status: http.StatusAccepted, Body: body}, err
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
func outcomeOf(answer ironic.InbandAnswer, err error) (outcome relays.Outcome, reason string) {
	switch {
	case errors.Is(err, ironic.ErrNotSent), errors.Is(err, ironic.ErrNotAllowed):
		return relays.OutcomeAgain, inspector.Clip(err.Error())
	case err != nil:
		return relays.OutcomeLost, inspector.Clip(err.Error())
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
	return outcome, inspector.Clip(answer.Reason)
}

// final are the statuses that say the same however often one asks.
func final() []int {
	return []int{http.StatusBadRequest, http.StatusNotAcceptable, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity}
}

// nodeIn reads the node out of what Ironic answers, "" if it names none.
func nodeIn(body []byte) string {
	var said struct {
		UUID string `json:"uuid"`
	}
	if err := json.Unmarshal(body, &said); err != nil || !ironic.IsUUID(said.UUID) {
		return ""
	}
	return strings.ToLower(said.UUID)
}
