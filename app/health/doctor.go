package health

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/doctor/host"
	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// Bounds of what a peer asks others for doctor; host.Limit is another.
const (
	routeLimit   = 3 * time.Second // one port of one peer
	serviceLimit = 5 * time.Second // Ironic, or the rights in one cluster
)

// Reach is what a peer finds out for doctor of those that it needs.
type Reach struct {
	Members *Members
	Binary  string                                               // version of the build
	Greet   func(ctx context.Context, m membership.Member) error // on its peers' port
	Ping    func(ctx context.Context, m membership.Member) error // by gossip
	Ironic  Ironic
	// Ramdisks asks Ironic's endpoints whether they take what ramdisks send; nil: they are sent none.
	Ramdisks func(ctx context.Context) []ironic.RamdiskAnswer
	Clusters []failover.Cluster
	// Keystone asks it about this peer's own user, where callers show tokens of it; nil: elsewhere.
	Keystone func(ctx context.Context) error
	// Components are the API servers of haconfig's clusters.
	Components func() []doctor.Service
	// Receivers sends each receiver of events a delivery without any.
	Receivers func(ctx context.Context) []doctor.Service
}

// rightsExaminer is a cluster that says which rights it does not give us.
type rightsExaminer interface {
	Missing(ctx context.Context) ([]string, error)
}

// Health asks all of them. It takes at most serviceLimit.
func (r *Reach) Health(ctx context.Context) doctor.Health {
	var h doctor.Health
	var work sync.WaitGroup
	work.Go(func() { h.Routes = r.routes(ctx) })
	work.Go(func() { h.Services = r.services(ctx) })
	work.Go(func() { h.Rights = r.rights(ctx) })
	h.Limits = host.Limits("/")
	h.Build = r.build(r.Members.Log.View())
	work.Wait()
	return h
}

// AddHealth adds to what was gathered of the host what its peer knows.
func (s *Self) AddHealth(f *doctor.Facts, h doctor.Health) {
	v := s.Members.Log.View()
	if skew, known := leader.Skew(v.Sessions(), v.Leadership().At, s.Members.Self.ID); known {
		f.Clock.SkewMS, f.Clock.SkewLimitMS = skew.Milliseconds(), leader.MaxSkew.Milliseconds()
	}
	space, w := s.Ballast.State(), s.Ballast.Writes()
	f.Disk.Peer, f.Disk.Ballast, f.Disk.Dropped = true, space.Ballast, space.Dropped
	f.Disk.Log = doctor.Writes{Count: w.Count, MedianUS: w.Median.Microseconds(), MostUS: w.Most.Microseconds()}
	f.Certificates = append(f.Certificates, Certificates(s.Renewal.Credentials())...)
	f.Limits, f.Routes, f.Services, f.Rights, f.Build = h.Limits, h.Routes, h.Services, h.Rights, h.Build
}

// AddTo adds to what was gathered of the host what the peer knows of its filter and
// address.
func (d *Door) AddTo(f *doctor.Facts) {
	f.Filter.Driver = d.Driver
	if d.Guard != nil {
		v, lists := d.Members.Log.View(), d.listState()
		f.Filter.Problem, f.Filter.MACs = api.ErrorText(lists.Err), lists.Allow+lists.Deny
		if lists.Drift > 0 && time.Since(lists.Drifted) < driftShown {
			f.Filter.Drift = lists.Drift
		}
		guard := d.Guard.Status()
		f.Filter.Renewed, f.Filter.Lapsed, f.Filter.LeaseMS = guard.Swaps, guard.Lapses,
			d.Config().Firewall.Lease.Milliseconds()
		f.Address.Conflict = guard.ConflictMAC
		age := d.listAge(v)
		_, f.Filter.Listed = v.Pull()
		f.Filter.AgeMS, f.Filter.Old = age.Milliseconds(), oldList(age, d.Config().Firewall.SyncPeriod)
	}
	servers, err := d.probed()
	for _, s := range servers {
		f.DHCP.Answers = append(f.DHCP.Answers, doctor.Server{Address: s.Address.String(), MAC: s.MAC})
	}
	if errors.Is(err, errProbeOff) { // as its operator wants it
		f.Gaps = append(f.Gaps, doctor.Gap{Check: "raw-dhcp", What: err.Error()})
		return
	}
	f.DHCP.SelfTest = api.ErrorText(err)
}

// Certificates are those of a peer, for doctor.
func Certificates(c *pki.Credentials) []doctor.Certificate {
	return []doctor.Certificate{
		{What: "the peer's certificate", NotBefore: c.Leaf.NotBefore.Unix(), NotAfter: c.Leaf.NotAfter.Unix(),
			RenewAt: pki.RenewAt(c.Leaf).Unix()},
		{What: "the CA of the cluster", NotBefore: c.CA.NotBefore.Unix(), NotAfter: c.CA.NotAfter.Unix()},
	}
}

// routes tries every port of every other peer, with a connection of its own: what
// is established passes firewalls that let nothing new pass.
func (r *Reach) routes(ctx context.Context) []doctor.Route {
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
			r.Error = routeError(ask())
			mu.Lock()
			defer mu.Unlock()
			out = append(out, r)
		})
	}
	for _, m := range r.Members.Others(r.Members.Log.View()) { // few
		try(doctor.Route{To: m.Name, What: "peers", Protocol: "tcp", Address: m.Address},
			func() error { return r.Greet(ctx, m) })
		try(doctor.Route{To: m.Name, What: "gossip", Protocol: "tcp", Address: m.Gossip},
			func() error { return cluster.Knock(ctx, m.Gossip) })
		try(doctor.Route{To: m.Name, What: "gossip", Protocol: "udp", Address: m.Gossip},
			func() error { return r.Ping(ctx, m) })
		name, _, err := net.SplitHostPort(m.API)
		if local := err == nil && (name == "localhost" || net.ParseIP(name).IsLoopback()); !local { // for its own host alone
			try(doctor.Route{To: m.Name, What: "the API", Protocol: "tcp", Address: m.API},
				func() error { return cluster.Knock(ctx, m.API) })
		}
	}
	work.Wait()
	return out
}

// routeError says first whether what was sent was dropped or refused.
func routeError(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused: " + err.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "dropped: " + err.Error()
	}
	return api.ErrorText(err)
}

// services asks Ironic something that it tells only whom it knows, and the receivers
// of events, has Keystone examine this peer's own token, and repeats what became of asking
// the API servers of haconfig's clusters, which each peer does every 2 s.
func (r *Reach) services(ctx context.Context) []doctor.Service {
	limited, cancel := context.WithTimeout(ctx, serviceLimit)
	defer cancel()
	var receivers, tokens []doctor.Service
	var work sync.WaitGroup
	work.Go(func() { receivers = r.Receivers(limited) })
	if r.Keystone != nil {
		work.Go(func() {
			tokens = []doctor.Service{{What: "Keystone", Section: "keystone", Error: api.ErrorText(r.Keystone(limited))}}
		})
	}
	asked := AskIronic(limited, r.Ironic)
	asked.Ramdisks = r.ramdisks(limited)
	work.Wait()
	return slices.Concat([]doctor.Service{asked}, tokens, r.Components(), receivers)
}

// ramdisks are the endpoints of Ironic that may take what ramdisks send.
func (r *Reach) ramdisks(ctx context.Context) (out []doctor.Ramdisks) {
	if r.Ramdisks == nil {
		return nil
	}
	for _, a := range r.Ramdisks(ctx) { // two at most
		out = append(out, doctor.Ramdisks{Option: a.Option, URL: a.URL, Used: a.Used, Refusal: a.Refusal,
			Error: api.ErrorText(a.Err)})
	}
	return out
}

// rights asks each Kubernetes cluster what this peer may do there.
func (r *Reach) rights(ctx context.Context) []doctor.Rights {
	limited, cancel := context.WithTimeout(ctx, serviceLimit)
	defer cancel()
	out := make([]doctor.Rights, len(r.Clusters)) // as many as are configured
	var work sync.WaitGroup
	for i, c := range r.Clusters {
		out[i].Cluster = c.Name()
		asked, ok := c.(rightsExaminer)
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

// build says what this peer runs, and what of it the cluster uses.
func (r *Reach) build(v fsm.View) doctor.Build {
	b := doctor.Build{Binary: r.Binary, Log: fsm.Version, InUse: v.ClusterVersion()}
	if ran, all := cluster.AllRunFor(v); all {
		b.RunningFor = int64(ran.Seconds())
	}
	return b
}
