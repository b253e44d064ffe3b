package host

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/doctor/dnsmasq"
	"github.com/trivet-ha/trivet/internal/portholder"
)

// Limit bounds one gathering. A caller waits a little longer.
const Limit = 8 * time.Second

// Options are what gathering needs to know.
type Options struct {
	Config config.Config
	// Trivet's own rules, which are no fault: the tables of nf_tables, for machines that
	// boot and for the floating IP, and how the names of its chains in iptables begin.
	Table, AddressTable, Chains string

	// Now is the wall clock.
	Now func() time.Time

	// Where the kernel tells of itself; tests have their own.
	proc, sys string
	holdersOf func(network string, at netip.AddrPort) ([]portholder.Holder, error)
}

// gathering is one run.
type gathering struct {
	o     Options
	facts doctor.Facts
	// servers are the units that serve DHCP on the interface on which machines boot.
	servers []string

	mu   sync.Mutex // of gaps
	gaps []doctor.Gap
}

// gap notes what could not be found out.
func (g *gathering) gap(check, what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	const most = 32 // more are as bad
	if len(g.gaps) < most {
		g.gaps = append(g.gaps, doctor.Gap{Check: check, What: what})
	}
}

// Gather looks at this host, within Limit. It may be called concurrently; each
// call starts a few commands.
func Gather(ctx context.Context, o Options) doctor.Facts {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	if o.proc == "" {
		o.proc, o.sys, o.holdersOf = "/proc", "/sys", portholder.Of
	}
	g := &gathering{o: o}
	c := o.Config
	g.facts.Peer = c.Name
	g.facts.Plan = PlanOf(c)
	g.links()
	g.facts.DHCP.Conf = dnsmasq.Parse(files{}, c.Doctor.DnsmasqConf)
	for _, p := range g.facts.DHCP.Conf.Problems {
		g.gap("pools", p.What+" ("+p.Place.String()+")")
	}
	g.sockets()
	g.clock()
	if t := c.API.TLS; t.Certificate == config.TLSFiles {
		g.facts.Certificates = append(g.facts.Certificates, certificate("the API's certificate", t.CertFile, t.KeyFile))
	}
	var work sync.WaitGroup
	work.Go(g.disk)
	work.Go(func() { g.rules(ctx) })
	work.Go(func() { g.boot(ctx) })
	work.Go(func() { g.unit(ctx) })
	work.Wait()
	g.facts.Gaps = g.gaps
	return g.facts
}

// PlanOf is what a configuration says.
func PlanOf(c config.Config) doctor.Plan {
	p := doctor.Plan{
		Driver: c.Firewall.Driver, HostsDir: c.Firewall.DHCPHostsDir, Match: c.Firewall.Match,
		Interface:  c.Firewall.Interface,
		FloatingIP: c.FloatingIP.Address, FloatingInterface: c.FloatingIP.Interface, APIScheme: c.API.Scheme(),
		FreezeMS: c.Firewall.Freeze.Milliseconds(), InspectInterfaces: c.Firewall.InspectInterfaces,
		ContinueInspection: c.Inspection.ContinueInspection,
	}
	_, p.APIPort, _ = hostPort(c.API.Listen)
	if key, listen := c.API.Ramdisks(); key != "api.listen" {
		_, p.RamdiskPort, _ = hostPort(listen)
	}
	for _, problem := range c.CheckPairs() {
		u := doctor.Useless{Do: problem.Do}
		problem.Do = ""
		u.What = problem.String()
		p.Useless = append(p.Useless, u)
	}
	return p
}

// hostPort cuts a listen address up.
func hostPort(text string) (host string, port uint16, ok bool) {
	host, number, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, false
	}
	n, err := strconv.ParseUint(number, 10, 16)
	return host, uint16(n), err == nil && n > 0
}
