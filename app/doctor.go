package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/doctor/host"
	"github.com/trivet-ha/trivet/firewall/nftables"
	"github.com/trivet-ha/trivet/internal/serviceuser"
)

// ownChains is how the names of Trivet's chains in iptables begin.
const ownChains = "TRIVET-"

// examiner gathers the facts of this peer's host, for one caller at a time.
type examiner struct {
	peer *Peer
	turn chan struct{} // holds one: whose turn it is
}

func newExaminer(p *Peer) *examiner { return &examiner{p, make(chan struct{}, 1)} }

// rules are what this host is examined by, as it is configured now.
func (e *examiner) rules() host.Options { return ownRules(e.peer.conf.Current(), e.peer.opts.Wall) }

// Facts returns what this host knows of itself, within bounded time and without a
// quorum.
func (e *examiner) Facts(ctx context.Context) doctor.Facts {
	p := e.peer
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return doctor.Facts{Peer: p.id.Name, ID: p.id.ID, Error: "others are asking for the same, and this took too long"}
	}
	held := p.core.gate.holds() // an address may move meanwhile, which is no fault
	var known doctor.Health
	var work sync.WaitGroup
	var served []doctor.Served
	work.Go(func() { known = e.health(ctx) })
	work.Go(func() { served = p.pxe.services.Facts(ctx) })
	f := host.Gather(ctx, e.rules())
	work.Wait()
	f.Peer, f.ID = p.id.Name, p.id.ID
	f.Address.Served = served
	f.Address.Held = held || p.core.gate.holds()
	role, _ := p.core.Store.Role()
	f.Leads = role.Leader
	p.self.Door.AddTo(&f)
	addConfigured(&f, p.conf.Current(), p.core.Store.View().Secrets().CAKey)
	addFaults(&f, p.used.Faults())
	p.self.AddHealth(&f, known)
	measures(&f, p.conf.Current())
	f.Limits.Needs = serviceuser.ReadUnit(ctx).Needs
	return f
}

// health is what doctor asks of this peer and of those that it needs.
func (e *examiner) health(ctx context.Context) doctor.Health {
	p := e.peer
	r := &health.Reach{
		Members: p.self.Members, Binary: p.opts.Binary, Greet: p.forward.Greet, Ping: p.gossip.Ping, Ironic: p.ironic,
		Components: p.kube.components.services,
		Receivers: func(ctx context.Context) []doctor.Service {
			return receiverServices(ctx, p.receivers, p.id.Cluster)
		},
	}
	if p.conf.Current().Inspection.ContinueInspection == config.ContinueRelay {
		r.Ramdisks = p.ironic.Ramdisks().Ask
	}
	if tokens := p.serving.keeper().tokens; tokens != nil {
		r.Keystone = tokens.Check
	}
	if p.kube.failover != nil {
		r.Clusters = p.kube.failover.Clusters
	}
	return r.Health(ctx)
}

// holds reports whether this host has the floating IP.
func (g *gate) holds() bool { return g != nil && g.Guard.Status().Held }

// ownRules say what is to be looked for on this host.
func ownRules(c config.Config, wall func() time.Time) host.Options {
	return host.Options{Config: c, Table: nftables.Table, AddressTable: nftables.AddressTable, Chains: ownChains,
		Now: wall}
}

// OfflineFacts are those of a host on which no peer runs, from its
// configuration.
func OfflineFacts(ctx context.Context, c config.Config, wall func() time.Time) doctor.Facts {
	f := host.Gather(ctx, ownRules(c, wall))
	f.Offline = true
	faults, err := ServiceFaults(ctx, c)
	if err != nil {
		f.Gaps = append(f.Gaps, doctor.Gap{Check: "config", What: "the files that the service uses: " + err.Error()})
	}
	addFaults(&f, faults)
	measures(&f, c)
	f.Limits.Needs = serviceuser.ReadUnit(ctx).Needs
	if _, credentials, err := datadir.Peek(c.DataDir); err == nil { // else no peer lives here, which is told
		f.Certificates = append(f.Certificates, health.Certificates(credentials)...)
	}
	return f
}

// addConfigured adds how this peer is configured where all have to be alike, with
// marks by which doctor compares secrets without reading them.
func addConfigured(f *doctor.Facts, conf config.Config, key []byte) {
	marks := conf.Marks(key)
	for _, key := range slices.Sorted(maps.Keys(marks)) {
		o, known := config.Lookup(key)
		if !known {
			continue
		}
		at := conf.Origin(key)
		f.Configured = append(f.Configured, doctor.Configured{
			Key: key, Line: conf.Line(key), Where: at.String(), InFile: at.Kind == config.FromFile, Secret: o.Secret(),
			Mark: fmt.Sprintf("%016x", marks[key]), Restart: o.Change != config.AtReload,
		})
	}
}
