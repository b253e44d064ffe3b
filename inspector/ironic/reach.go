package ironic

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
)

// Apart reports whether ramdisks have an endpoint of their own.
func (c *Client) Apart() bool { return c.now.Load().ramdisks != nil }

// PingRamdisks reports whether this peer can speak to the endpoint that ramdisks have of their
// own, as Ping does, but any answer below 500 will do: it may serve its few paths alone. Without
// such an endpoint nothing is sent.
func (c *Client) PingRamdisks(ctx context.Context) error {
	l := c.now.Load()
	if l.ramdisks == nil {
		return nil
	}
	ctx, cancel := within(WithGuard(ctx, func() error { return nil }), min(l.timeout, pingTimeout))
	defer cancel()
	ping := call{method: http.MethodGet}
	_, err := l.send(ctx, l.ramdisks, ping)
	if err == nil {
		return nil
	}
	if e := describe("Ironic", ramdiskOption, ping.name(), err); e.Status == 0 || e.Status >= http.StatusInternalServerError {
		return e
	}
	return nil
}

// RamdiskPinger is the endpoint that ramdisks may have of their own, as a Reach asks it.
type RamdiskPinger interface {
	Apart() bool
	PingRamdisks(ctx context.Context) error
}

// Reach knows whether Ironic, and the endpoint that takes what ramdisks send, can be reached from
// this peer. Its methods may be called concurrently.
type Reach struct {
	Ironic   *Health
	ramdisks *Health // of their own endpoint; nil: they have none and never will
	apart    func() bool
}

// NewReach believes that both are there until they were asked. Without a RamdiskPinger ramdisks
// have no endpoint of their own.
func NewReach(ironic Pinger, ramdisks RamdiskPinger, log *slog.Logger) *Reach {
	r := &Reach{Ironic: NewHealth(ironic, log)}
	if ramdisks != nil {
		r.ramdisks, r.apart = NewHealth(ramdiskPing{ramdisks}, log), ramdisks.Apart
		r.ramdisks.says = words{
			lost: "Ironic's endpoint for ramdisks cannot be reached from this peer",
			away: "Ironic's endpoint for ramdisks unreachable: relayed callbacks wait",
			back: "Ironic's endpoint for ramdisks reachable again",
		}
	}
	return r
}

type ramdiskPing struct{ RamdiskPinger }

// Ping implements Pinger.
func (p ramdiskPing) Ping(ctx context.Context) error { return p.PingRamdisks(ctx) }

// Run asks again and again until ctx ends.
func (r *Reach) Run(ctx context.Context) {
	var asking sync.WaitGroup
	if r.ramdisks != nil {
		asking.Go(func() { r.ramdisks.Run(ctx) })
	}
	r.Ironic.Run(ctx)
	asking.Wait()
}

// Apart returns the Health of the endpoint that ramdisks have of their own; ok is false while they
// have none.
func (r *Reach) Apart() (own *Health, ok bool) {
	return r.ramdisks, r.ramdisks != nil && r.apart()
}

// RamdisksAway returns why nothing that ramdisks send can be handed on, nil if it can.
func (r *Reach) RamdisksAway() error {
	if own, ok := r.Apart(); ok {
		return own.Err()
	}
	return r.Ironic.Err()
}

// Lasting is why a leader lacks something of Ironic, once that has lasted; see Health.Lasting.
func (r *Reach) Lasting() error {
	if own, ok := r.Apart(); ok && r.Ironic.Err() == nil {
		return own.Lasting()
	}
	return r.Ironic.Lasting()
}

// Proven reports whether all that a leader needs of Ironic answered when it was last asked.
func (r *Reach) Proven() bool {
	own, ok := r.Apart()
	return r.Ironic.Proven() && (!ok || own.Proven())
}
