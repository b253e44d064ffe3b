package health

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/internal/pace"
)

// addressEvery is how often a peer looks whether its host could carry the floating
// IP: status and probes answer from memory.
const addressEvery = 2 * time.Second

// FloatingIP is what keeps this host from carrying the floating IP, and which of its services
// do not answer there.
type FloatingIP struct {
	found    atomic.Pointer[[]doctor.Finding]
	Services *FloatingServices // set before Run
}

// problems returns what was found last; none before the first look, and of nil.
func (f *FloatingIP) problems() []doctor.Finding {
	if f == nil {
		return nil
	}
	if found := f.found.Load(); found != nil {
		return *found
	}
	return nil
}

// warnings are what keeps this host from carrying the address, and what does not answer
// there, as found last.
func (f *FloatingIP) warnings(address string) []api.Warning {
	if f == nil {
		return nil
	}
	return append(floatingWarnings(f.problems()), f.Services.warnings(address)...)
}

// Run looks every addressEvery until ctx ends.
func (f *FloatingIP) Run(ctx context.Context, conf func() config.Config) {
	for range pace.Every(ctx, addressEvery) {
		found := FloatingProblems(conf())
		f.found.Store(&found)
		f.Services.askOnce(ctx)
	}
}

// check is the line of readyz where a floating IP is configured.
func (f *FloatingIP) check() api.HealthCheck {
	c := api.HealthCheck{Name: "floating ip"}
	for _, p := range f.problems() {
		c.Warning = errors.Join(c.Warning, errors.New(p.Text))
	}
	return c
}
