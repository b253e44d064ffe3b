package health

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/doctor/host"
	"github.com/trivet-ha/trivet/internal/pace"
)

// FloatingProblems are what is wrong with the floating IP of this configuration
// on this host: its interface or its address. It asks the kernel.
func FloatingProblems(conf config.Config) []doctor.Finding {
	if conf.FloatingIP.Address == "" {
		return nil
	}
	links, err := host.Links()
	if err != nil {
		return nil // doctor reports that the interfaces cannot be listed
	}
	_ = host.ReadARPIgnore("/proc", conf.FloatingIP.Interface, links) // doctor reports that it cannot be read
	return doctor.FloatingProblems(
		doctor.Plan{FloatingIP: conf.FloatingIP.Address, FloatingInterface: conf.FloatingIP.Interface}, links)
}

// AddressProblems are what no host can do with the floating IP of this configuration, where
// this host has the interface that it names: an address that is none of a single host.
func AddressProblems(conf config.Config) config.Problems {
	at, err := config.FloatingAddress(conf.FloatingIP.Address)
	if err != nil {
		return nil // none, or refused
	}
	links, err := host.Links()
	if err != nil {
		return nil // doctor reports that the interfaces cannot be listed
	}
	return unusableAddress(conf, at, links)
}

func unusableAddress(conf config.Config, at netip.Addr, links []doctor.Link) (out config.Problems) {
	for _, l := range links {
		if what := l.Reserved(at); what != "" && l.Name == conf.FloatingIP.Interface {
			out = append(out, config.Problem{Where: conf.Origin("floating_ip.address"), Key: "floating_ip.address",
				What: fmt.Sprintf("%v is %s, by the addresses of floating_ip.interface %s on this host", at, what, l.Name),
				Do:   "write an address of that subnet that no host has"})
		}
	}
	return out
}

// floatingWarnings are the same for status.
func floatingWarnings(problems []doctor.Finding) []api.Warning {
	var out []api.Warning
	for _, f := range problems {
		severity := "" // as the code has it
		if f.Severity != doctor.Error {
			severity = api.SeverityAdvice // it may be meant so
		}
		out = append(out, api.Warning{Code: "floating_ip", Severity: severity, Text: f.Text, Remedy: f.Advice()})
	}
	return out
}

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
