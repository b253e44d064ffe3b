package health

import (
	"fmt"
	"net/netip"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/doctor/host"
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
