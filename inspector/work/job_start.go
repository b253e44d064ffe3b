package work

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/internal/pace"
)

// start carries out an accepted start: what the node will be known by is in the
// log before the node is powered on, since the whitelist is made of it.
func (j *job) start(ctx context.Context, rec introspection.Record) error {
	if rec.State != introspection.NodeStarting {
		return j.out.consume() // carried out before: doing it again would reset a node that boots
	}
	text, err := j.boot(ctx, rec)
	switch {
	case text != "":
		return j.out.fail(http.StatusBadRequest, text)
	case ironic.Unjudged(err): // and not Ironic's verdict on this node, which has a text
		return fmt.Errorf("%w: %w", errGiveBack, err)
	}
	return err
}

// boot brings the node from starting to waiting, or returns the contract's text
// for why it ends in error.
func (j *job) boot(ctx context.Context, rec introspection.Record) (text string, err error) {
	attributes := rec.Attributes // by which the callback will be recognised
	if len(attributes.MACs) == 0 {
		ports, err := j.pool.o.Ironic.Ports(ctx, rec.Node)
		if err != nil {
			return j.node.texted("Failed to list the node's ports: %v", ctx, err)
		}
		attributes = identify.AttributesOf(ports, attributes.BMC, j.log)
	}
	if len(attributes.MACs)+len(attributes.BMC) == 0 && j.by.Config.Processing.NodeNotFoundHook == "" {
		return "No lookup attributes were found, inspector won't be able to find it after introspection, " +
			"consider creating ironic ports or providing an IPMI address", nil
	}
	wait := introspection.Advance{Event: introspection.EventWait, Attributes: &attributes, Consume: true}
	if !rec.ManageBoot {
		return "", j.out.advance(wait)
	}
	if !slices.Equal(attributes.MACs, rec.Attributes.MACs) || !slices.Equal(attributes.BMC, rec.Attributes.BMC) {
		if err := j.out.advance(introspection.Advance{Event: introspection.EventStart, Attributes: &attributes}); err != nil {
			return "", err
		}
	}
	if text, err := j.powerOn(ctx); err != nil || text != "" {
		return text, err
	}
	return "", j.out.advance(wait)
}

// resets is how often a node is reset at most where Ironic fails at it and may have done it.
const resets = 5

// powerOn lets the node boot from the network. Where Ironic may have reset it or not, it
// begins again with the boot device, which the node may have used up.
func (j *job) powerOn(ctx context.Context) (text string, err error) {
	t := &inspector.Task{Ironic: j.pool.o.Ironic}
	ctx = ironic.WithReread(ctx, func(ctx context.Context) error { return j.node.fit(ctx, t) })
	if text, err := j.bootFromNetwork(ctx, t); err != nil || text != "" {
		return text, err
	}
	if text, err := j.waitForReboot(ctx, t); err != nil || text != "" {
		return text, err
	}
	for try := 1; ; try++ {
		if err := j.node.fit(ctx, t); err != nil {
			return j.node.texted(unread, ctx, err)
		}
		err := j.node.power(ctx, t, ironic.PowerReboot)
		j.turned = j.turned && (ironic.Busy(err) || !ironic.Unknown(err)) // else it may be used up
		switch {
		case err == nil:
			return "", nil
		case j.node.undecided(ctx, err): // its request is given back
			return "", cmp.Or(ctx.Err(), err)
		case !ironic.Unknown(err), try == resets:
			return j.node.verdict("Failed to power on the node, check its power management configuration: %v", err)
		case !pace.Wait(ctx, turnWait):
			return "", ctx.Err()
		}
		j.log.Info("outcome of reset unknown: setting the boot device again", "tries", try, "err", err)
		if text, err := j.bootFromNetwork(ctx, t); err != nil || text != "" {
			return text, err
		}
	}
}

// bootFromNetwork sets the boot device. What is read of the node first says whether it may
// be; it is read again before the reset, since a BMC takes a while for this, and the throttle
// longer.
func (j *job) bootFromNetwork(ctx context.Context, t *inspector.Task) (text string, err error) {
	if err := j.node.fit(ctx, t); err != nil {
		return j.node.texted(unread, ctx, err)
	}
	if err := j.pool.o.Ironic.SetBootDevice(ctx, t.Node().UUID, ironic.BootPXE, persistent(t.Node())); err != nil {
		return j.node.texted("Failed to set boot device to PXE: %v", ctx, err)
	}
	return "", nil
}

// persistent reports whether the boot device has to stay set for this node.
func persistent(n ironic.Node) bool {
	switch v := n.DriverInfo["force_persistent_boot_device"].(type) {
	case bool:
		return v
	case string:
		return strings.EqualFold(v, "always") || strings.EqualFold(v, "true")
	default:
		return false
	}
}

// waitForReboot waits for this node's place in the reboot throttle, one for the whole
// cluster. The worker is free for others meanwhile. A peer that stops does not
// wait: the request is given back. A start that had its turn takes no other one, behind all that
// wait, where Ironic was busy then: what this peer tries again is spaced out by itself.
func (j *job) waitForReboot(ctx context.Context, t *inspector.Task) (text string, err error) {
	gap := j.by.Config.RebootThrottle
	if gap == 0 {
		return "", nil
	}
	var turn introspection.Turn
	if j.turned {
		turn.Wait = j.pool.again.next(gap)
	} else if turn, text, err = j.out.takeTurn(gap); err != nil || text != "" {
		return text, err
	}
	j.turned = true
	// Meanwhile another user may take the node: its MACs are on the whitelist, and its machine, which
	// that one boots, would get the ramdisk.
	for end := time.Now().Add(turn.Wait); ; {
		if err := j.node.rest(ctx, min(time.Until(end), j.by.Config.CleanUpPeriod)); err != nil {
			return "", err
		}
		if time.Until(end) <= 0 {
			return "", nil
		}
		if err := j.node.fit(ctx, t); err != nil && !ironic.Unjudged(err) { // at its turn it is read again
			return j.node.texted(unread, ctx, err)
		}
	}
}

// spacing keeps moments apart. Its method may be called concurrently.
type spacing struct {
	mu   sync.Mutex
	free time.Time // the next moment
}

// next takes a moment, from which the following one is gap away, and returns how long it is until then.
func (s *spacing) next(gap time.Duration) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait = max(time.Until(s.free), 0)
	s.free = time.Now().Add(wait + gap)
	return wait
}
