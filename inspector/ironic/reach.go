package ironic

import (
	"context"
	"log/slog"
	"sync"
)

// RamdiskPinger is the endpoint that ramdisks may have of their own, as a Reach asks it.
type RamdiskPinger interface {
	Pinger
	Apart() bool
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
		r.ramdisks, r.apart = NewHealth(ramdisks, log), ramdisks.Apart
		r.ramdisks.says = words{
			lost: "Ironic's endpoint for ramdisks cannot be reached from this peer",
			away: "Ironic's endpoint for ramdisks unreachable: relayed callbacks wait",
			back: "Ironic's endpoint for ramdisks reachable again",
		}
	}
	return r
}

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
