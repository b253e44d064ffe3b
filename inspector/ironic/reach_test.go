package ironic_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/test/msgcheck"
)

// endpoints are an Ironic and an endpoint of its ramdisks, each of which may be away.
type endpoints struct{ apart, away, ramdisksAway atomic.Bool }

func refusedIf(away *atomic.Bool) error {
	if away.Load() {
		return errors.New("connection refused")
	}
	return nil
}

func (e *endpoints) Ping(context.Context) error { return refusedIf(&e.away) }

// ofRamdisks is the endpoint of ramdisks.
type ofRamdisks struct{ *endpoints }

func (e ofRamdisks) Ping(context.Context) error { return refusedIf(&e.ramdisksAway) }
func (e ofRamdisks) Apart() bool                { return e.apart.Load() }

// Relays wait for the endpoint that takes what ramdisks send, and for no other; a leader needs
// both. The endpoint may come and go with the configuration.
func TestReachOfRamdisks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e endpoints
		r := ironic.NewReach(&e, ofRamdisks{&e}, msgcheck.Logger(t))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go r.Run(ctx)
		for _, c := range []struct {
			apart, away, ramdisksAway bool
			relays, leads             string // what the error names, "" for none
		}{
			{false, false, false, "", ""},
			{false, true, false, "Ironic cannot", "Ironic cannot"},
			{false, false, true, "", ""},
			{true, false, true, "endpoint for ramdisks cannot", "endpoint for ramdisks cannot"},
			{true, true, false, "", "Ironic cannot"},
			{true, true, true, "endpoint for ramdisks cannot", "Ironic cannot"},
			{true, false, false, "", ""},
		} {
			e.apart.Store(c.apart)
			e.away.Store(c.away)
			e.ramdisksAway.Store(c.ramdisksAway)
			time.Sleep(ironic.HealthyInterval + ironic.LastingAfter + time.Second)
			says := func(what string, err error, want string) {
				if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("reach: %+v: %s: %v, want %q", c, what, err, want)
				}
			}
			says("relays", r.RamdisksAway(), c.relays)
			says("leads", r.Lasting(), c.leads)
			if r.Proven() != (c.leads == "") {
				t.Errorf("reach: %+v: proven %v", c, r.Proven())
			}
		}
	})
}
