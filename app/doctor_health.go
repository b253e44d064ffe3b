package app

import (
	"cmp"
	"context"
	"net"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/doctor/host"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore/ballast"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// Bounds of what a peer asks others for doctor; host.Limit is another.
const (
	routeLimit   = 3 * time.Second // one port of one peer
	serviceLimit = 5 * time.Second // Ironic, or the rights in one cluster
)

// health is what a peer knows or finds out of itself and of those that it needs.
// It takes at most serviceLimit.
func (p *Peer) health(ctx context.Context) doctor.Health {
	var h doctor.Health
	var work sync.WaitGroup
	work.Go(func() { h.Routes = p.routes(ctx) })
	work.Go(func() { h.Services = p.services(ctx) })
	work.Go(func() { h.Rights = p.rights(ctx) })
	h.Limits = host.Limits("/")
	h.Build = p.build(p.core.Store.View())
	work.Wait()
	return h
}

// addHealth adds to what was gathered of the host what its peer knows.
func (p *Peer) addHealth(f *doctor.Facts, h doctor.Health) {
	v := p.core.Store.View()
	if skew, known := leader.Skew(v.Sessions(), v.Leadership().At, p.id.ID); known {
		f.Clock.SkewMS, f.Clock.SkewLimitMS = skew.Milliseconds(), leader.MaxSkew.Milliseconds()
	}
	s, w := p.ballast.State(), p.ballast.Writes()
	f.Disk.Peer, f.Disk.Ballast, f.Disk.Dropped = true, s.Ballast, s.Dropped
	f.Disk.Log = doctor.Writes{Count: w.Count, MedianUS: w.Median.Microseconds(), MostUS: w.Most.Microseconds()}
	f.Certificates = append(f.Certificates, certificatesOf(p.renewal.Credentials())...)
	f.Limits, f.Routes, f.Services, f.Rights, f.Build = h.Limits, h.Routes, h.Services, h.Rights, h.Build
}

// measures adds what follows from the configuration and the size of the disk.
func measures(f *doctor.Facts, c config.Config) {
	space := ballast.Space{Free: f.Disk.Free, Size: f.Disk.Size}
	f.Disk.Low, f.Disk.Floor = space.Low(), space.Floor()
	f.Disk.HeartbeatUS = timing(c.Raft.Timing).Heartbeat.Microseconds()
}

func certificatesOf(c *pki.Credentials) []doctor.Certificate {
	return []doctor.Certificate{
		{What: "the peer's certificate", NotBefore: c.Leaf.NotBefore.Unix(), NotAfter: c.Leaf.NotAfter.Unix(), RenewAt: pki.RenewAt(c.Leaf).Unix()},
		{What: "the CA of the cluster", NotBefore: c.CA.NotBefore.Unix(), NotAfter: c.CA.NotAfter.Unix()},
	}
}

// routes tries every port of every other peer, with a connection of its own: what
// is established passes firewalls that let nothing new pass.
func (p *Peer) routes(ctx context.Context) []doctor.Route {
	ctx, cancel := context.WithTimeout(ctx, routeLimit)
	defer cancel()
	var mu sync.Mutex
	var out []doctor.Route
	var work sync.WaitGroup
	try := func(r doctor.Route, ask func() error) {
		if _, _, err := net.SplitHostPort(r.Address); err != nil {
			return // it does not say where; an older peer's API
		}
		work.Go(func() {
			r.Error = api.ErrorText(ask())
			mu.Lock()
			defer mu.Unlock()
			out = append(out, r)
		})
	}
	for _, m := range p.others(p.core.Store.View()) { // few
		try(doctor.Route{To: m.Name, What: "peers", Protocol: "tcp", Address: m.Address}, func() error { return p.forward.Greet(ctx, m) })
		try(doctor.Route{To: m.Name, What: "gossip", Protocol: "tcp", Address: m.Gossip}, func() error { return cluster.Knock(ctx, m.Gossip) })
		try(doctor.Route{To: m.Name, What: "gossip", Protocol: "udp", Address: m.Gossip}, func() error { return p.gossip.Ping(ctx, m) })
		if !onlyLocal(m.API) {
			try(doctor.Route{To: m.Name, What: "the API", Protocol: "tcp", Address: m.API}, func() error { return cluster.Knock(ctx, m.API) })
		}
	}
	work.Wait()
	return out
}

// onlyLocal reports whether an address is for its own host alone.
func onlyLocal(address string) bool {
	name, _, err := net.SplitHostPort(address)
	return err == nil && (name == "localhost" || net.ParseIP(name).IsLoopback())
}

// services asks Ironic something that it tells only whom it knows, and repeats
// what became of asking Keystone and the API servers of haconfig's clusters.
func (p *Peer) services(ctx context.Context) []doctor.Service {
	var out []doctor.Service
	if p.ironic != nil {
		limited, cancel := context.WithTimeout(ctx, serviceLimit)
		defer cancel()
		version, err := p.ironic.Version(limited)
		out = append(out, doctor.Service{What: "Ironic", Section: "ironic", Version: version, Error: api.ErrorText(err)})
	}
	if p.keeperNow().tokens != nil {
		out = append(out, doctor.Service{What: "Keystone", Section: "keystone", Error: api.ErrorText(p.keystoneAway())})
	}
	return append(out, p.ha.services()...)
}

// rights asks each Kubernetes cluster what this peer may do there.
func (p *Peer) rights(ctx context.Context) []doctor.Rights {
	if p.kube.made == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, serviceLimit)
	defer cancel()
	out := make([]doctor.Rights, len(p.kube.made.Clusters)) // as many as are configured
	var work sync.WaitGroup
	for i, c := range p.kube.made.Clusters {
		out[i].Cluster = c.Name()
		asked, ok := c.(interface {
			Missing(ctx context.Context) ([]string, error)
		})
		if !ok {
			continue
		}
		work.Go(func() {
			missing, err := asked.Missing(limited)
			out[i].Missing, out[i].Error = missing, api.ErrorText(err)
		})
	}
	work.Wait()
	return out
}

// build says what this peer runs, and who keeps the cluster from using it all.
func (p *Peer) build(v fsm.View) doctor.Build {
	b := doctor.Build{Binary: p.opts.Binary, Log: int(fsm.Version), InUse: int(v.ClusterVersion())}
	if b.InUse >= b.Log {
		return b
	}
	for _, m := range v.Members() {
		if int(m.Version) < b.Log {
			b.HeldBy = append(b.HeldBy, cmp.Or(m.Name, m.ID))
		}
	}
	return b
}
