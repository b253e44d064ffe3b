package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/api/events"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/firewall/probe"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/internal/httpserver"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/ballast"
	"github.com/trivet-ha/trivet/raftstore/host"
)

// identity returns who this peer is, with the addresses that it has now.
func (o Options) identity() (datadir.Identity, datadir.Secrets, error) {
	id, secrets, err := o.Dir.Load()
	if err != nil {
		return id, secrets, err
	}
	id, err = o.moved(id)
	return id, secrets, err
}

// startPort binds the peers' port; servePeers answers on it.
func (p *Peer) startPort(ctx context.Context, secrets datadir.Secrets) error {
	o := p.opts
	p.renewal = cluster.NewRenewal(secrets.Credentials, o.Dir.SaveCredentials, o.Wall, o.Random, o.Logger)
	end := pki.Endpoint{Credentials: p.renewal.Credentials, Now: o.Wall, Tolerance: pki.PeerTolerance, Refused: p.Refused}
	p.access = cluster.NewAccess(end, p.id.Known, o.Logger)
	port, err := cluster.NewPort(ctx, o.Config.Cluster.Listen, p.access)
	if err != nil {
		return newListenError("cluster.listen", o.Config.Cluster.Listen, err)
	}
	p.opened.add(partPort, func(context.Context) error { return port.Close() })
	p.port, p.forward, p.line = port, cluster.NewForwarder(p.access), cluster.NewLine(p.access)
	return nil
}

func (p *Peer) startCore(ctx context.Context) error {
	st, err := p.memory.openLog(p.opts)
	if err != nil {
		return err
	}
	if p.recorded, err = host.Members(st.Log); err != nil {
		return errors.Join(err, st.Close())
	}
	core, err := StartCore(p.coreOptions(st))
	if errors.Is(err, fsm.UnknownEntry) {
		err = fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	if err != nil {
		return errors.Join(err, st.Close())
	}
	p.opened.addFunc("probes", p.line.Close) // after the log, whose core sends them
	p.opened.add(partLog, core.Close)
	// before the log: requests under way end
	p.opened.addFunc("connections", func() { p.forward.Close(); p.ironic.Close(); p.serving.keeper().hangUp() })
	p.core = core
	p.kube.log.store.Store(core.Store)
	p.events = events.NewHub(core.Store)
	p.recorder = events.NewReporter(
		events.ReporterOptions{Do: core.Session, View: core.Store.View, Wall: p.opts.Wall, Logger: p.opts.Logger})
	p.opened.addFunc("events", p.events.Close)
	p.access.Follow(core.Store, p.forward.Ask, cluster.Own{Stored: core.Stored, RolledBack: p.RolledBack})
	v := core.Store.View()
	if v.ClusterID() != "" && (v.ClusterID() != p.id.Cluster || v.Incarnation() != p.id.Incarnation) {
		return fmt.Errorf(
			"the log is of cluster %s, incarnation %d, the certificate of %s, %d: a recovery was interrupted; run 'trivet recover' again",
			v.ClusterID(), v.Incarnation(), p.id.Cluster, p.id.Incarnation)
	}
	p.backups = &backups{
		conf: p.opts.Config.Backup, peer: p.id, view: core.Store.View, wall: p.opts.Wall, log: p.opts.Logger,
		failing: logs.Limit(p.opts.Logger), began: p.opts.Wall(),
		progress: progress{core.Stored, core.Session.ID, time.Now()},
		free: func(path string) (uint64, error) {
			space, err := ballast.Look(path)
			return space.Free, err
		},
	}
	p.pxe.openServices(floatingClient{p.opts.Config, core.Store.View, p.opts.Wall}, core.Store)
	return nil
}

// newSelf puts together what this peer knows of itself.
func (p *Peer) newSelf() *health.Self {
	core := p.core
	members := &health.Members{
		Self: p.id, Log: core.Store, Recorded: p.recorded, Contacts: core.Contacts,
		Gossip: p.gossip.States,
	}
	s := &health.Self{
		Facts:   health.Facts{Binary: p.opts.Binary, Directory: p.opts.Dir.Path(), Lends: p.opts.Config.Lease.Enabled},
		Members: members, Door: core.door(members, p.conf.Current), Address: p.pxe.carries, Session: core.Session,
		Fitness: core.Fitness, Watchdog: core.Watchdog,
		Ironic: core.Reach, Ballast: p.ballast, Renewal: p.renewal, Wall: p.opts.Wall, KeystoneAway: p.serving.keystoneAway,
		More: health.Warnings{Keys: func(v fsm.View) []api.Warning {
			return admin.KeyWarnings(v, p.renewal.Credentials(), p.opts.Wall())
		}, Backups: p.backups.warnings, Components: p.kube.components.warnings,
			Receivers: func() []api.Warning { return receiverWarnings(p.receivers, p.opts.Wall) },
			Configuration: func() []api.Warning {
				unread := p.texts.warnings(p.conf.Waiting())
				return slices.Concat(p.conf.Warnings(), p.used.warnings(), unread, p.serving.userWarnings())
			},
			Ramdisks: p.serving.ramdisks.warnings, Stream: p.opts.Stream},
	}
	if k := core.kube; k != nil {
		s.Kube = &health.Kube{Log: core.Store, Settings: k.made.Settings, Clusters: k.made.Clusters, Controller: k.Controller,
			Prober: k.Prober, Figures: p.kube.figures}
	}
	// a simulated host has no network
	if g := core.gate; g != nil && p.opts.Filter == nil {
		s.Door.Probe = health.NewProbe(p.opts.Config.Firewall, s.Door.Driver,
			probe.Options{Interface: g.made.Interface, Random: p.opts.Random, Logger: p.opts.Logger})
	}
	return s
}

// openLog opens the peer's log behind a ballast. To open it may need the space
// that the ballast holds.
func (m *memory) openLog(o Options) (raftstore.Storage, error) {
	dir := o.Dir
	m.ballast = ballast.New(dir.PeerDir(), o.Logger)
	open := host.Open
	if o.Config.Raft.LogStore == "wal" {
		open = func(dir string) (raftstore.Storage, error) { return host.OpenWAL(dir, o.Random) }
	}
	st, err := open(dir.RaftDir())
	if ballast.Full(err) {
		m.ballast.Drop()
		st, err = open(dir.RaftDir())
	}
	if ballast.Full(err) && o.Config.Raft.LogStore == "wal" {
		o.Logger.Warn("open write-ahead log failed: disk full, writing to bolt until the next start", "err", err)
		st, err = host.Open(dir.RaftDir())
	}
	if err != nil {
		return raftstore.Storage{}, err
	}
	return m.ballast.Guard(st), nil
}

func (p *Peer) coreOptions(st raftstore.Storage) CoreOptions {
	o := p.opts
	self := cluster.ServerAddress(p.id.ID, p.id.Address)
	// what lies below the core
	unfit := func() error { return cmp.Or(p.ballast.Unfit(), p.serving.files.Unfit(), p.used.Unfit()) }
	return CoreOptions{
		Raft: raftstore.Options{
			ID: p.id.ID, Storage: st, Transport: host.NewTransport(p.port, self, o.Logger), Forward: p.forward,
			Timing: timing(o.Config.Raft.Timing), Logger: o.Logger, Wall: o.Wall, Monotonic: host.Monotonic,
			Fatal: func(err error) { p.End(fmt.Errorf("%w: %w", ErrUnknown, err)) },
		},
		Self: cluster.Self{Peer: p.id.ID, Boot: uuid.NewString(), Binary: o.Binary,
			API: advertisedAPI(o.Config, p.id), Knows: fsm.Version},
		Introspection: p.inspection.options(p.id.Name),
		Gate:          p.pxe.gate(o.Config, p.ironic, o.Logger),
		Failover:      cmp.Or(p.kube.failover, p.kube.off),
		Electing:      electing(o.Config),
		Former:        p.access,
		Upgrade:       Upgrade{p.forward, o.Config.Raft.FinalizeAfter},
		Duties:        p.kube.components.duties(),
		Receivers:     p.receivers,
		Owner: Owner{Exit: o.Exit, Removed: p.Removed, RolledBack: p.RolledBack, Unfit: unfit,
			Probed: p.figures.Committed},
		Random:  o.Random,
		Leader:  p.forward,
		Contact: Contact{Prober: p.line, Machine: readMachine("/", os.Getenv), Returned: p.port.Redial},
	}
}

func (p *Peer) startGossip(ctx context.Context, ring cluster.Ring) error {
	listen, view := p.opts.Config.Gossip.Listen, p.core.Store.View
	at, err := datadir.Host{Config: p.opts.Config}.GossipAddress(ctx, p.id.Gossip, seeds(view(), p.id))
	if err != nil { // gossip is for display: nothing that a start has to wait for
		p.opts.Logger.Warn("look up own name for gossip failed: the others may show this peer as dead until it is started again",
			"name", p.id.Gossip, "address", at, "err", err)
	}
	gossip, err := cluster.NewGossip(cluster.GossipOptions{
		ID: p.id.ID, Cluster: p.id.Cluster, Incarnation: p.id.Incarnation, Binary: p.opts.Binary,
		Listen: listen, Advertise: at, Ring: ring,
		Seeds: func() []string { return seeds(view(), p.id) }, Hosts: func() []string {
			return gossipHosts(view(), p.access, p.id)
		}, Proven: p.access.PeerAt, Newer: func(uint64) { p.End(ErrSuperseded) }, Logger: p.opts.Logger,
	})
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return newListenError("gossip.listen", listen, err)
	}
	if err != nil {
		return err
	}
	p.opened.add(partGossip, func(context.Context) error { return gossip.Leave() })
	p.gossip = gossip
	return nil
}

// servePeers answers on the peers' port.
func (p *Peer) servePeers(context.Context) error {
	p.serving.ramdisks = p.newRamdiskPort()
	p.self = p.newSelf()
	p.admin = p.newAdmin()
	p.conf.Prepare, p.conf.Rewritten = p.prepare, p.texts.rewritten
	return p.port.Serve(p.peerRoutes(), p.serving.admission, p.opts.Logger)
}

// serveAPI opens the API to callers.
func (p *Peer) serveAPI(ctx context.Context) error {
	ln, err := listen(ctx, "api.listen", p.opts.Config.API.Listen)
	if err != nil {
		return err
	}
	p.opened.add(partAPI, func(ctx context.Context) error { // of this and the following steps
		p.events.Close() // streams would last for longer than drainLimit
		return p.serving.close(ctx)
	})
	p.serving.api = ln
	p.self.Register(p.figures, func() bool { return !p.core.Runner.Token().IsZero() }, p.core.inspect.Workers.Busy)
	p.backups.metrics(p.figures)
	p.figures.MustRegister(receiverFigures(p.receivers, p.opts.Wall))
	p.serving.register(p.figures)
	p.serving.ramdisks.register(p.figures)
	f, err := p.newFront(p.conf.Current(), p.serving.first)
	if err != nil {
		return err
	}
	p.serving.now.Store(f)
	p.serving.start(ln, httpserver.New(p.serving.public(admission.Public, p.serving.doorway, p.apiTLS())))
	return nil
}

// newRamdiskPort returns the port that this peer opens for ramdisks, nil if it has none but
// the API's.
func (p *Peer) newRamdiskPort() *RamdiskPort {
	key, address := p.opts.Config.API.Ramdisks()
	if key == "api.listen" {
		return nil
	}
	port := &RamdiskPort{Proof: p.core.TakesDocuments, Address: address, Logger: p.opts.Logger}
	secret := p.apiTLS()
	port.Open = func(ctx context.Context) (RamdiskServer, error) {
		ln, err := listen(ctx, key, address)
		if err != nil {
			return nil, err
		}
		options := p.serving.public(admission.Public, p.serving.doorway, secret)
		options.Handler = port.handler(options.Handler)
		server := httpserver.New(options)
		p.serving.serve(ln, server)
		return server, nil
	}
	return port
}

// serveSocket opens the control interface to this host.
func (p *Peer) serveSocket(ctx context.Context) error {
	ln, err := listenSocket(ctx, p.opts.Config.Socket)
	if err != nil {
		return err
	}
	// Root alone calls, and a snapshot of a slow disk may come in for long.
	limits := httpserver.Limits{
		Header: 10 * time.Second, Idle: 2 * time.Minute,
		Body: 10 * time.Minute, Stall: time.Minute, BodyStep: 1,
		Write: time.Minute,
		Conns: 256, Share: 256, Spare: spareForHost,
	}
	p.serving.start(ln, httpserver.New(httpserver.Options{
		Handler: p.serving.onSocket(p.admin.Handler()), Limits: limits, ConnContext: api.SocketContext,
		Failed: p.serving.files.Note, Logger: p.opts.Logger,
	}))
	return nil
}

// startServices starts what this peer does besides answering.
func (p *Peer) startServices(keys cluster.Ring) {
	ctx, stop := context.WithCancel(pace.Together(context.Background(), p.core.began))
	p.opened.addFunc("background work", stop)
	ring := cluster.NewRingFollower(cluster.RingOptions{
		Peer: p.core.Store.ID(), Now: keys, View: p.core.Store.View, Do: p.core.Session, Logger: p.opts.Logger,
		Put: []func(cluster.Ring) error{p.opts.Dir.SaveRing, p.gossip.SetRing}, // keys are on the disk before they are used
	})
	running := &p.serving.running
	running.Go(func() { p.renewal.Run(ctx, p.core.Store.View) })
	running.Go(func() { p.access.Run(ctx) })
	running.Go(func() { p.gossip.Run(ctx) })
	running.Go(func() { p.ballast.Run(ctx) })
	running.Go(func() { p.serving.files.Run(ctx) })
	running.Go(func() { p.backups.Run(ctx) })
	running.Go(func() {
		p.used.Run(ctx, p.conf.Conf.Load, func() {
			p.serving.lookAtUsers()
			p.texts.look(p.conf.Current())
			p.passwords.look(p.conf.Current())
		})
	})
	running.Go(func() { p.recorder.Run(ctx) })
	if port := p.serving.ramdisks; port != nil {
		running.Go(func() { port.Run(ctx) })
	}
	running.Go(func() { p.self.Events(p.recorder.Report).Run(ctx) })
	running.Go(func() { ring.Run(ctx) })
	running.Go(func() {
		if p.access.RolledBack() == nil { // else it may be a copy of the disk of a host that runs
			announcer{p.id, p.core, p.forward, p.opts.Logger}.announceAddress(ctx)
		}
	})
	if p.pxe.filter.Run != nil {
		running.Go(func() { p.pxe.filter.Run(ctx) })
	}
	if probe := p.self.Door.Probe; probe != nil {
		running.Go(func() { probe.Run(ctx) })
	}
	if p.pxe.carries != nil {
		running.Go(func() { p.pxe.carries.Run(ctx, p.conf.Current) })
	}
}

// seeds are the gossip addresses of the other members; before the log has
// arrived, those the cluster named at the join.
func seeds(v fsm.View, self datadir.Identity) []string {
	var out []string
	for _, m := range v.Members() {
		if m.ID != self.ID && m.Gossip != "" {
			out = append(out, m.Gossip)
		}
	}
	if out == nil {
		return self.Seeds
	}
	return out
}

// gossipHosts are the addresses of the members, this one among them: a host
// speaks from any of its own.
func gossipHosts(v fsm.View, access *cluster.Access, self datadir.Identity) []string {
	var out []string
	for _, m := range v.Members() {
		out = append(out, m.Gossip, m.Address, m.API)
	}
	if out == nil {
		return append(access.JoinedAddresses(), self.Seeds...)
	}
	// A former member's stream is answered with this incarnation, and merged by neither.
	for _, f := range v.FormerMembers() {
		out = append(out, f.Gossip, f.Address)
	}
	return out
}
