package inspector

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/identify"
)

// InbandCall is a callback in the form of ironic-inspector's successor, which
// is Ironic itself: POST /v1/continue_inspection.
type InbandCall struct {
	Body []byte
	// Node is the query's node_uuid, and Version the version of Ironic's API that
	// the header asks for; "" for none.
	Node, Version string
	// Source is the network that sent it, "" if that is not known. Each has a share
	// of the room for documents that wait for Ironic.
	Source string
}

// InbandAnswer is what a callback gets from Ironic, or from us in its place.
type InbandAnswer struct {
	Status int
	Body   []byte // JSON
	Reason string // Ironic's own sentence, of what is no success
}

// InbandAPI is the endpoint of Ironic's own in-band inspection, which takes callbacks
// of ramdisks. Its methods may be called concurrently.
type InbandAPI interface {
	// Continue sends a callback to Ironic: one try, which asks Allowed(ctx). Any
	// answer is no error. After an error Ironic may have taken it, unless the
	// error is ErrNotSent or ErrNotAllowed.
	Continue(ctx context.Context, c InbandCall) (InbandAnswer, error)
}

// ErrNotSent says that nothing of a call has left this host.
var ErrNotSent = errors.New("nothing was sent")

// ContinueInspection takes a callback that was meant for Ironic's own endpoint.
// A refusal has the status that Ironic gives: 404 for every failed look-up and
// for a node that does not wait, 400 for what cannot be looked up. An answer of
// 202 means that the callback is committed, not that it is processed.
func (s *Service) ContinueInspection(ctx context.Context, c InbandCall) (InbandAnswer, error) {
	if c.forIronic() {
		return s.relays.pass(ctx, c)
	}
	mode := s.o.Live.Config().ContinueInspection
	in := caller{bytes: len(c.Body)}
	if err := computing(ctx, len(c.Body), func() error { return in.readInband(s.o, c.Body, mode) }); err != nil {
		return InbandAnswer{}, err
	}
	switch mode {
	case config.ContinueRelay:
		return s.relays.relay(ctx, c, in.machine)
	case config.ContinueOff: // since a moment ago
		return InbandAnswer{}, refuse(http.StatusNotFound, "inspection.continue_inspection is off")
	}
	node, _, err := s.deliver(ctx, in)
	if err != nil {
		return InbandAnswer{}, asIronic(err)
	}
	if in.keeper != nil && in.keeper.Wants(true) { // its end is not known yet
		s.logs.store(ctx, in.keeper, node, in.logs)
	}
	return acceptedFor(node)
}

// readInband reads a document that was meant for Ironic as far as the mode has it read, and
// makes one of ours of it where it is processed here.
func (c *caller) readInband(o *ServiceOptions, body []byte, mode string) (err error) {
	if c.data, err = document.Receive(body); err == nil {
		c.machine, err = identify.OfInband(c.data)
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	if mode == config.ContinueRelay || mode == config.ContinueOff {
		return nil
	}
	if err = likeInspector(c.data); err == nil {
		err = c.pack(o)
	}
	return asIronic(err)
}

// asIronic gives a refused callback Ironic's status: there is one for all reasons
// why no waiting node was found.
func asIronic(err error) error {
	var said *Refusal
	if errors.As(err, &said) && said.Status == http.StatusBadRequest {
		return refuse(http.StatusNotFound, "%s", said.Message)
	}
	return err
}

// tokenMinor is the minor version of Ironic's API from which on a callback may
// name its node, and is answered with the agent's token, which Ironic alone has.
const tokenMinor = 84

// forIronic reports whether only Ironic can answer.
func (c InbandCall) forIronic() bool {
	if c.Node != "" || c.Version == "latest" {
		return true
	}
	minor, ok := strings.CutPrefix(c.Version, "1.")
	n, err := strconv.Atoi(minor)
	return ok && err == nil && n >= tokenMinor
}

// acceptedFor is the answer of Ironic's oldest API. That a node is not known is
// null, which ironic-python-agent takes for what it is and looks its node up by
// MACs.
func acceptedFor(node string) (InbandAnswer, error) {
	var known *string
	if node != "" {
		known = &node
	}
	body, err := json.Marshal(struct {
		UUID *string `json:"uuid"`
	}{known})
	return InbandAnswer{Status: http.StatusAccepted, Body: body}, err
}

// likeInspector puts into the document what hooks look for where the inspector's
// callback has it, and a newer ramdisk may have in its inventory alone.
func likeInspector(d *Document) error {
	if d.Has("boot_interface") {
		return nil
	}
	boot, err := identify.Inventory(d).Get("boot").Members()
	if err != nil {
		return nil // no object: the ramdisk does not know
	}
	if booted := boot.Get("pxe_interface"); booted.Text() != "" {
		return d.Set("boot_interface", booted.Raw())
	}
	return nil
}
