package app

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
)

// addressEvery is how often a peer looks whether its host could carry the floating
// IP: status and probes answer from memory.
const addressEvery = 2 * time.Second

// addressHealth is what keeps this host from carrying the floating IP.
type addressHealth struct {
	found atomic.Pointer[[]doctor.Finding]
}

// problems returns what was found last; none before the first look.
func (h *addressHealth) problems() []doctor.Finding {
	if found := h.found.Load(); found != nil {
		return *found
	}
	return nil
}

// run looks every addressEvery until ctx ends.
func (h *addressHealth) run(ctx context.Context, conf func() config.Config) {
	tick := time.NewTicker(addressEvery)
	defer tick.Stop()
	for {
		found := FloatingProblems(conf())
		h.found.Store(&found)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// check is the line of readyz where a floating IP is configured.
func (h *addressHealth) check() api.HealthCheck {
	c := api.HealthCheck{Name: "floating ip"}
	for _, f := range h.problems() {
		c.Warning = errors.Join(c.Warning, errors.New(f.Text))
	}
	return c
}
