package relay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/identify"
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
	body, err := json.Marshal(map[string]*string{"uuid": known})
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
// failed, or a proxy that lost its answer, may have taken it. What may be otherwise when the
// same is asked again is tried again; any other answer is Ironic's last word.
func outcomeOf(answer ironic.InbandAnswer, err error) (outcome relays.Outcome, reason string) {
	switch {
	case errors.Is(err, ironic.ErrNotSent), errors.Is(err, ironic.ErrNotAllowed):
		return relays.OutcomeAgain, inspector.Clip(err.Error())
	case err != nil:
		return relays.OutcomeLost, inspector.Clip(err.Error())
	case answer.Status/100 == 2:
		return relays.OutcomeTaken, ""
	case answer.Absent:
		outcome = relays.OutcomeAbsent
	case passing(answer):
		outcome = relays.OutcomeAgain
	case answer.Status == http.StatusNotImplemented, answer.Status == http.StatusHTTPVersionNotSupported,
		answer.Status == http.StatusNetworkAuthenticationRequired: // of one that serves no such request, now or later
		outcome = relays.OutcomeRefused
	case answer.Status >= http.StatusInternalServerError:
		outcome = relays.OutcomeLost
	default:
		outcome = relays.OutcomeRefused
	}
	return outcome, inspector.Clip(answer.Reason)
}

// enrolling is outcomeOf of a machine that no port in the state names: Ironic may have enrolled it before
// it found the conductor busy or the node locked, and enrols it again by each document. Where it has a port
// of the machine, or waits for a node with its BMC, it was that node that was busy. A proxy's 503 says that
// it has no Ironic to send it to, as while Ironic restarts.
func enrolling(ctx context.Context, s identify.Search, m identify.Machine, outcome relays.Outcome,
	answer ironic.InbandAnswer) relays.Outcome {
	switch answer.Status {
	case http.StatusServiceUnavailable:
		if !answer.Own {
			return outcome
		}
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusLocked:
	default:
		return outcome
	}
	if found, err := s.Sought(ctx, m); err == nil && (found.Port || found.Waits) {
		return outcome
	}
	return relays.OutcomeLost
}

// sender is what is known of the machine that sent a document.
type sender struct {
	machine identify.Machine
	node    string // the node whose ports name it, "" for none and for several
	known   bool   // Ironic has a port of it, or waits for a node with its BMC: it does not enrol it
	// passed says that Ironic has a node with its BMC, which waits for no document any more.
	passed bool
	unread error // why Ironic could not be asked
}

// senderOf finds where a document came from, by Ironic's ports in the state, which has none where there is
// no filter to feed. Ironic is asked where it must not get the document if it does not know the machine.
func senderOf(ctx context.Context, s identify.Search, v fsm.View, r relays.Relay, data []byte) (o sender) {
	parsed, err := document.Parse(data)
	if err != nil {
		return o // Ironic says what is wrong with it
	}
	o.machine, _ = identify.OfInband(parsed) // as when it came; the zero Machine has no owner
	o.node, o.known = o.machine.PortOwner(v), o.machine.HasPort(v.NodesByPort)
	if o.known || !r.Open && !r.Doubt && r.After.IsZero() {
		return o
	}
	ctx, cancel := context.WithTimeout(ctx, soughtLimit)
	defer cancel()
	found, err := s.Sought(ctx, o.machine)
	o.node, o.known, o.unread = found.Node, found.Port || found.Waits, err
	o.passed = err == nil && found.BMC && !found.Waits
	return o
}

// outdated says how an attempt ends before a byte is sent, and why, "" if Ironic may have the
// document. Ironic takes what it is sent for the inspection that it waits with, so the document of
// an earlier one must not reach it, nor an older one of this in the place of a newer. In doubt the
// document may be the one that Ironic has: of two, only Ironic tells which.
func outdated(v fsm.View, r relays.Relay, o sender) (outcome relays.Outcome, why string) {
	node := cmp.Or(r.Node, o.node)
	if node == "" {
		return repeated(v, r, o)
	}
	if inspectedSince(v, node, r.Sequence) {
		if r.Doubt {
			return relays.OutcomeAbsent, earlierInspection
		}
		return relays.OutcomeRefused, earlierInspection
	}
	for newer := range v.RelaysOf(node) {
		switch {
		case newer.Sequence <= r.Sequence, newer.State == relays.Failed, r.Doubt:
		case newer.State == relays.Pending && r.Deadline > v.Now(): // Ironic may refuse it
			return relays.OutcomeAgain, "the node has sent a newer document, which Ironic gets first"
		default:
			return relays.OutcomeRefused, "the node has sent a newer document, which Ironic gets in its place"
		}
	}
	return repeated(v, r, o)
}

// repeated is outdated of a machine that Ironic does not find, and may enrol by each document: it gets none
// a second time.
func repeated(v fsm.View, r relays.Relay, o sender) (outcome relays.Outcome, why string) {
	switch {
	case o.known, !r.Doubt && r.After.IsZero():
		return 0, ""
	case o.passed:
		return relays.OutcomeAbsent, "Ironic has a node with the machine's BMC, which waits for no document"
	case !r.Doubt && o.unread == nil:
		return relays.OutcomeAbsent, "Ironic shows no port of the machine"
	case r.Deadline > v.Now():
		return relays.OutcomeAgain, o.doubtful()
	}
	return relays.OutcomeRefused, o.doubtful()
}

// doubtful is why Ironic does not get a document a second time.
func (o sender) doubtful() string {
	if o.unread != nil {
		return inspector.Clip("Ironic may have the document, and did not say whether it knows the machine: " +
			o.unread.Error())
	}
	return perhapsEnrolled
}

// perhapsEnrolled is why Ironic, which was asked, does not get a document a second time.
const perhapsEnrolled = "Ironic may have enrolled the machine, and shows neither a port with one of its MACs nor a node with " +
	"its BMC, so the document is not sent again: if 'baremetal node list --provision-state enroll' shows a node without " +
	"name and ports that was created when the document came, delete it; boot the machine again"

// earlierInspection is why Ironic does not get a document.
const earlierInspection = "it is of an earlier inspection: Ironic began another one of the node after it came"

// inspectedSince reports whether Ironic is known to have begun to inspect a node after an entry of
// the log: it was asked in between, and did not. That the state learned of the inspection later
// proves nothing, as Ironic may have been away.
func inspectedSince(v fsm.View, node string, entry fencing.Token) bool {
	now, inspects := v.Inspected(node)
	return inspects && now.After >= entry
}

// passing reports whether Ironic took nothing and may say otherwise if it is asked again: the
// node is locked, no conductor lives, there is too much to do, a login was renewed, or a proxy
// has no route to Ironic.
func passing(answer ironic.InbandAnswer) bool {
	switch answer.Status {
	case http.StatusNotFound:
		return !answer.Absent // of a proxy that has no route to Ironic now
	case http.StatusConflict, http.StatusLocked:
		return true
	case http.StatusUnauthorized:
		return !answer.Anonymous
	}
	return answer.Later()
}

// forRamdisk is Ironic's answer as its sender hears it, who takes any 4xx but 409 for final. What
// is not about the document is for the operator, and its sender is to come again.
func forRamdisk(answer ironic.InbandAnswer) (ironic.InbandAnswer, error) {
	ours := answer.Status == http.StatusUnauthorized || answer.Status == http.StatusForbidden
	if answer.Status/100 == 2 || answer.Status == http.StatusConflict ||
		answer.Status/100 == 4 && !ours && !passing(answer) {
		return answer, nil
	}
	return answer, inspector.Refuse(http.StatusServiceUnavailable, "Ironic answered %d: %s", answer.Status, answer.Reason)
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
