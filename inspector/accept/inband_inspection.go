package accept

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/inspector/relay"
)

// ContinueInspection takes a callback that was meant for Ironic's own endpoint.
// A refusal has the status that Ironic gives: 404 for every failed look-up and
// for a node that does not wait, 400 for what cannot be looked up. An answer of
// 202 means that the callback is committed, not that it is processed.
func (s *Service) ContinueInspection(ctx context.Context, c ironic.InbandCall) (ironic.InbandAnswer, error) {
	if forIronic(c) {
		return s.o.Relays.Pass(ctx, c)
	}
	mode := s.o.Live.Config().ContinueInspection
	in := caller{bytes: len(c.Body)}
	if err := computing(ctx, len(c.Body), func() error { return in.readInband(s.o, c.Body, mode) }); err != nil {
		return ironic.InbandAnswer{}, err
	}
	switch mode {
	case config.ContinueRelay:
		return s.o.Relays.Relay(ctx, c, in.machine)
	case config.ContinueOff: // since a moment ago
		return ironic.InbandAnswer{}, inspector.Refuse(http.StatusNotFound, "inspection.continue_inspection is off")
	}
	node, _, err := s.deliver(ctx, in)
	if err != nil {
		return ironic.InbandAnswer{}, asIronic(err)
	}
	if in.keeper != nil && in.keeper.Wants(true) { // its end is not known yet
		s.logs.store(ctx, in.keeper, node, in.logs)
	}
	return relay.Accepted(node)
}

// readInband reads a document that was meant for Ironic as far as the mode has it read, and
// makes one of ours of it where it is processed here.
func (c *caller) readInband(o *Options, body []byte, mode string) (err error) {
	if c.data, err = document.Receive(body); err == nil {
		c.machine, err = identify.OfInband(c.data)
	}
	if err != nil {
		return inspector.Refuse(http.StatusBadRequest, "%v", err)
	}
	if mode == config.ContinueRelay || mode == config.ContinueOff {
		return nil
	}
	// Hooks look for it where the inspector's callback has it; a newer ramdisk may have it in its inventory alone.
	if !c.data.Has("boot_interface") {
		boot, _ := identify.Inventory(c.data).Get("boot").Members() // none of another shape
		if booted := boot.Get("pxe_interface"); booted.Text() != "" {
			err = c.data.Set("boot_interface", booted.Raw())
		}
	}
	if err == nil {
		err = c.pack(o)
	}
	return asIronic(err)
}

// asIronic gives a refused callback Ironic's status: there is one for all reasons
// why no waiting node was found.
func asIronic(err error) error {
	var said *inspector.Refusal
	if errors.As(err, &said) && said.Status == http.StatusBadRequest {
		return inspector.Refuse(http.StatusNotFound, "%s", said.Message)
	}
	return err
}

// tokenMinor is the minor version of Ironic's API from which on a callback may
// name its node, and is answered with the agent's token, which Ironic alone has.
const tokenMinor = 84

// forIronic reports whether only Ironic can answer.
func forIronic(c ironic.InbandCall) bool {
	if c.Node != "" || c.Version == "latest" {
		return true
	}
	minor, ok := strings.CutPrefix(c.Version, "1.")
	n, err := strconv.Atoi(minor)
	return ok && err == nil && n >= tokenMinor
}
