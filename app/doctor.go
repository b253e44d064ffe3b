package app

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/doctor/host"
	"github.com/trivet-ha/trivet/firewall/nftables"
	"github.com/trivet-ha/trivet/fsm"
)

// ownChains is how the names of Trivet's chains in iptables begin.
const ownChains = "TRIVET-"

// examiner gathers the facts of this peer's host, for one caller at a time.
type examiner struct {
	peer *Peer
	turn chan struct{} // holds one: whose turn it is
}

func (p *Peer) newExaminer() *examiner { return &examiner{p, make(chan struct{}, 1)} }

// Facts implements api.Doctor.
func (e *examiner) Facts(ctx context.Context) doctor.Facts {
	p := e.peer
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return doctor.Facts{Peer: p.id.Name, ID: p.id.ID, Error: "others are asking for the same, and this took too long"}
	}
	held := p.holds() // an address that moves meanwhile is nobody's fault
	var health doctor.Health
	var work sync.WaitGroup
	work.Go(func() { health = p.health(ctx) })
	f := host.Gather(ctx, p.hostOptions())
	work.Wait()
	f.Peer, f.ID = p.id.Name, p.id.ID
	f.Address.Held = held || p.holds()
	role, _ := p.core.Store.Role()
	f.Leads = role.Leader
	p.addGate(&f)
	p.addConfigured(&f)
	p.self.AddHealth(&f, health)
	measures(&f, p.config())
	return f
}

func (p *Peer) holds() bool { return p.core.gate != nil && p.core.gate.Guard.Status().Held }

// hostOptions say what is to be looked for on this peer's host.
func (p *Peer) hostOptions() host.Options {
	o := host.Options{
		Config: p.config(), Cluster: p.id.Address, Gossip: p.id.Gossip, Table: nftables.Table, Chains: ownChains, Now: p.opts.Wall,
	}
	for _, m := range p.others(p.core.Store.View()) {
		if at, err := netip.ParseAddrPort(m.Address); err == nil { // else it is a name
			o.Others = append(o.Others, host.Other{Name: m.Name, Address: at.Addr()})
		}
	}
	return o
}

// addGate adds what the peer knows of its filter and address.
func (p *Peer) addGate(f *doctor.Facts) {
	v := p.core.Store.View()
	f.Filter.Driver = p.driver()
	if g := p.core.gate; g != nil {
		lists, _ := g.Lists.State()
		f.Filter.Problem = api.ErrorText(lists.Err)
		if lists.Drift > 0 && time.Since(lists.Drifted) < driftShown {
			f.Filter.Drift = lists.Drift
		}
		f.Address.Conflict = g.Guard.Status().ConflictMAC
		f.Filter.Listed, f.Filter.AgeMS, f.Filter.Old = p.listStands(v, p.config().Firewall.SyncPeriod)
	}
	if p.self.Door.Probe == nil {
		return
	}
	servers, err := p.self.Door.Probe.Found()
	for _, s := range servers {
		f.DHCP.Answers = append(f.DHCP.Answers, doctor.Server{Address: s.Address.String(), MAC: s.MAC})
	}
	f.DHCP.SelfTest = api.ErrorText(err)
}

// listStands says whether Ironic's ports were listed, how old that list is in
// milliseconds, and whether that is too old; see doorHealth.
func (p *Peer) listStands(v fsm.View, period time.Duration) (listed bool, ageMS int64, old bool) {
	_, listed = v.Pull()
	age := p.listAge(v)
	return listed, age.Milliseconds(), period > 0 && age > max(oldPeriods*period, oldLeast)
}

// OfflineFacts are those of a host on which no peer runs, from its
// configuration.
func OfflineFacts(ctx context.Context, c config.Config, wall func() time.Time) doctor.Facts {
	o := host.Options{Config: c, Table: nftables.Table, Chains: ownChains, Now: wall}
	o.Cluster, o.Gossip = written(c.Cluster), written(c.Gossip)
	f := host.Gather(ctx, o)
	f.Offline = true
	measures(&f, c)
	if _, credentials, err := datadir.Peek(c.DataDir); err == nil { // else no peer lives here, which is told
		f.Certificates = append(f.Certificates, Certificates(credentials)...)
	}
	return f
}

// written is the address that others dial, if the configuration says it.
func written(a config.Address) string {
	if a.Advertise != "" {
		return a.Advertise
	}
	if host, _, err := net.SplitHostPort(a.Listen); err == nil && host != "" {
		return a.Listen
	}
	return ""
}
