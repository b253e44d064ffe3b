package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall/probe"
	"github.com/trivet-ha/trivet/floatingip"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/pki"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/ballast"
	"github.com/trivet-ha/trivet/raftstore/host"
)

// certGrace is how long after its end a peer's certificate is still taken: a
// cluster that was off for a month must come back by itself.
const certGrace = 365 * 24 * time.Hour

// Bounds of callers on the API and the socket. Bodies have their own: a read
// deadline here would end requests that wait for their answer.
const (
	httpLimit = 10 * time.Second // headers of one request
	idleLimit = 2 * time.Minute  // between two requests
)

// drainLimit bounds the wait for answers under way when a peer stops.
const drainLimit = 500 * time.Millisecond

// Why a peer ended by itself; see Peer.Ended.
var (
	ErrLeft       = errors.New("this peer has left the cluster; its log is gone")
	ErrRemoved    = errors.New("this peer was removed from the cluster")
	ErrSuperseded = errors.New("the cluster went on without this peer: it was recovered with a higher incarnation")
	ErrUnknown    = errors.New("the log holds what this binary does not know")
)

// Options are what a Peer is made from.
type Options struct {
	Config config.Config
	Dir    *DataDir
	Binary string // version of the build
	Logger *slog.Logger
	Wall   func() time.Time
	Random io.Reader
	// Exit ends the process at once, without Stop: a lame duck must not act.
	Exit func(code int, why error)
	// Load reads the configuration again, whole and checked; nil: there is none
	// that could be. Log makes the Logger write as a configuration says; nil: it
	// stays as it is.
	Load func() (config.Config, error)
	Log  func(config.Log)
	// Recent returns the newest lines of the log, the oldest first, for a bundle;
	// nil: nobody keeps them.
	Recent func() string
}

// Peer is one running peer.
type Peer struct {
	opts    Options
	id      Identity
	renewal *cluster.Renewal
	forward *cluster.Forwarder
	port    *cluster.Port
	core    *Core
	gossip  *cluster.Gossip
	probe   *probe.Probe // nil where nothing is filtered
	filter  filter
	address *floatingip.Address // nil: there is none
	api     net.Listener
	inspection
	*configured
	doorway doorway
	counted
	kube    kubeParts
	ha      haParts
	ballast *ballast.Ballast
	backups *backups
	servers []*http.Server
	ended   chan error  // capacity 1: the first reason
	leaving atomic.Bool // its own removal was proposed and not refused
	stopRun context.CancelFunc
	running sync.WaitGroup
}

// New opens everything a peer needs and starts it; when a later step fails,
// what the earlier ones opened is closed again.
func New(ctx context.Context, o Options) (p *Peer, err error) {
	id, secrets, err := o.Dir.Load()
	if err != nil {
		return nil, err
	}
	if id, err = o.moved(id); err != nil {
		return nil, err
	}
	p = &Peer{opts: o, id: id, configured: newConfigured(o.Config), counted: newCounted(), ended: make(chan error, 1)}
	if err := errors.Join(p.openInspection(), p.openFilter()); err != nil {
		return nil, err
	}
	undo := []func() error{p.closeFilter, p.notes.Close, p.closeKube}
	defer func() {
		for i := len(undo) - 1; err != nil && i >= 0; i-- {
			err = errors.Join(err, undo[i]())
		}
	}()
	if err := errors.Join(p.openKube(), p.openComponents()); err != nil {
		return nil, err
	}
	view := func() fsm.View { return p.core.Store.View() }
	p.renewal = cluster.NewRenewal(secrets.Credentials, view, o.Dir.SaveCredentials, o.Wall, o.Random, o.Logger)
	end := pki.Endpoint{Credentials: p.renewal.Credentials, Now: o.Wall, Grace: certGrace, Refused: p.refused}
	if p.port, err = cluster.NewPort(ctx, o.Config.Cluster.Listen, end); err != nil {
		return nil, err
	}
	undo = append(undo, p.port.Close)
	p.forward = cluster.NewForwarder(end)
	if err := p.startCore(); err != nil {
		return nil, err
	}
	undo = append(undo, func() error { return p.core.Close(ctx) })
	p.probe = p.newProbe()
	p.backups = p.newBackups()
	if err := p.startGossip(secrets.Ring); err != nil {
		return nil, err
	}
	undo = append(undo, p.gossip.Leave)
	if err := p.serve(ctx); err != nil {
		return nil, err
	}
	p.run(p.newRing(secrets.Ring))
	return p, nil
}

func (p *Peer) startCore() error {
	o := p.opts
	st, err := p.openLog()
	if err != nil {
		return err
	}
	self := cluster.ServerAddress(p.id.ID, p.id.Address)
	p.core, err = StartCore(CoreOptions{
		Raft: raftstore.Options{
			ID: p.id.ID, Storage: st, Transport: host.NewTransport(p.port, self), Forward: p.forward,
			Timing: timing(o.Config.Raft.Timing), Logger: o.Logger, Wall: o.Wall,
			Fatal: func(err error) { p.end(fmt.Errorf("%w: %w", ErrUnknown, err)) },
		},
		Self:          cluster.Self{Peer: p.id.ID, Boot: uuid.NewString(), Binary: o.Binary, API: advertisedAPI(o.Config, p.id)},
		Introspection: p.introspection(),
		Gate:          p.gateOptions(),
		Failover:      p.kube.made,
		Electing:      p.electing(),
		Duties:        p.ha.duties(),
		Unfit:         p.ballast.Unfit,
		Wall:          o.Wall,
		Random:        o.Random,
		Leader:        p.forward,
		Probed:        func(took time.Duration) { p.commits.Observe(took.Seconds()) },
		Exit:          o.Exit,
		Removed:       p.removed,
		Logger:        o.Logger,
	})
	if errors.Is(err, fsm.UnknownEntry) {
		err = fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	if err != nil {
		return errors.Join(err, st.Close())
	}
	v := p.core.Store.View()
	if v.ClusterID() != "" && (v.ClusterID() != p.id.Cluster || v.Incarnation() != p.id.Incarnation) {
		return errors.Join(fmt.Errorf("the log is of cluster %s, incarnation %d, the certificate of %s, %d: a recovery was interrupted; run 'trivet recover' again",
			v.ClusterID(), v.Incarnation(), p.id.Cluster, p.id.Incarnation), p.core.Close(context.Background()))
	}
	return nil
}

// timing translates raft.timing.
func timing(name string) raftstore.Timing {
	switch name {
	case "fast":
		return raftstore.Normal().Scale(0.6)
	case "slow":
		return raftstore.Normal().Scale(2)
	default:
		return raftstore.Normal()
	}
}

// advertisedAPI is where others reach this peer's API, for display.
func advertisedAPI(c config.Config, id Identity) string {
	host, port, err := net.SplitHostPort(c.API.Listen)
	if err != nil {
		return ""
	}
	if host == "" || net.ParseIP(host).IsUnspecified() {
		if host, _, err = net.SplitHostPort(id.Address); err != nil {
			return ""
		}
	}
	return net.JoinHostPort(host, port)
}

func (p *Peer) startGossip(ring cluster.Ring) (err error) {
	p.gossip, err = cluster.NewGossip(cluster.GossipOptions{
		ID: p.id.ID, Cluster: p.id.Cluster, Incarnation: p.id.Incarnation, Binary: p.opts.Binary,
		Listen: p.opts.Config.Gossip.Listen, Advertise: p.id.Gossip, Ring: ring,
		Seeds: p.seeds, Newer: func(uint64) { p.end(ErrSuperseded) }, Logger: p.opts.Logger,
	})
	return err
}

// seeds are the gossip addresses of the other members; before the log has
// arrived, those the cluster named at the join.
func (p *Peer) seeds() []string {
	var out []string
	for _, m := range p.core.Store.View().Members() {
		if m.ID != p.id.ID && m.Gossip != "" {
			out = append(out, m.Gossip)
		}
	}
	if out == nil {
		return p.id.Seeds
	}
	return out
}

// refused hears of every certificate that this peer's end of a connection did
// not accept.
func (p *Peer) refused(err error) {
	var inc *pki.IncarnationError
	if errors.As(err, &inc) && inc.Theirs > inc.Ours {
		p.end(fmt.Errorf("%w: %w", ErrSuperseded, err))
		return
	}
	p.opts.Logger.Debug("connection refused", "err", err)
}

// end asks whoever runs this peer to stop it; the first reason counts.
func (p *Peer) end(why error) {
	select {
	case p.ended <- why:
	default:
	}
}

// removed hears, from the leader, that this peer is no member any more. The
// answer to a leave may be overtaken by that, or lost.
func (p *Peer) removed() {
	if p.leaving.Load() {
		p.end(ErrLeft)
		return
	}
	p.end(ErrRemoved)
}

// Ended yields why this peer must stop, once, if it finds a reason itself.
func (p *Peer) Ended() <-chan error { return p.ended }

// serve opens the API, the socket and the peers' port to callers.
func (p *Peer) serve(ctx context.Context) (err error) {
	examiner := p.newExaminer()
	control := p.control(examiner).Handler()
	peers := http.NewServeMux()
	peers.Handle("/peer/v1/", cluster.PeerHandler(p.core.Store))
	admission := cluster.NewAdmission(p.core.Session, p.core.Store.View, p.opts.Wall, p.opts.Random, p.opts.Logger, p.shared)
	peers.Handle("POST "+cluster.PathJoin, admission)
	peers.Handle("POST "+cluster.PathObserve, admission)
	peers.Handle("POST "+cluster.PathMove, cluster.MembersOnly(p.core.Store, cluster.MoveHandler(p.core.Session)))
	peers.Handle("/peer/v1/leases/", cluster.AnswerHandler(p.core.Store, p.core.AnswerLending))
	peers.Handle(api.PathPeerSafe, cluster.MembersOnly(p.core.Store, api.SafeHandler(p)))
	filter := cluster.MembersOnly(p.core.Store, api.FilterHandler(p))
	peers.Handle(api.PathPeerFirewall, filter)
	peers.Handle(api.PathPeerFirewall+"/", filter)
	peers.Handle(api.PathPeerDoctor, cluster.MembersOnly(p.core.Store, api.DoctorHandler(examiner)))
	peers.Handle(api.PathPeerBundle, cluster.MembersOnly(p.core.Store, api.BundleHandler(p)))
	peers.Handle(api.PathPeerDrill, cluster.MembersOnly(p.core.Store, api.DrillHandler(p)))
	kube := p.kubeControl()
	about := cluster.MembersOnly(p.core.Store, api.KubeHandler(kube.Here))
	peers.Handle(api.PathPeerFailover, about)
	peers.Handle(api.PathPeerFailover+"/", about)
	peers.Handle("/v1/", api.Identified(cluster.OperatorsOnly(p.core.Store.View, control)))
	if err := p.port.Serve(peers, p.opts.Logger); err != nil {
		return err
	}
	lc := net.ListenConfig{}
	if p.api, err = lc.Listen(ctx, "tcp", p.opts.Config.API.Listen); err != nil {
		return fmt.Errorf("api.listen: %w", err)
	}
	p.register()
	p.doorway.now.Store(p.newFront(p.config(), p.keeper))
	public := p.server(&p.doorway)
	public.TLSConfig = p.tls
	p.start(p.api, public)
	if err := p.serveComponents(ctx); err != nil {
		return err
	}
	if err := p.serveElections(ctx); err != nil {
		return err
	}
	sock, err := listenSocket(ctx, p.opts.Config.Socket)
	if err != nil {
		return errors.Join(err, p.closeServers())
	}
	local := p.server(control)
	local.ConnContext = api.SocketContext
	p.start(sock, local)
	return nil
}

// listenSocket replaces a socket that a killed process left. The data
// directory's lock is held, so no living process has it.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("socket: %w", err)
	}
	lc := net.ListenConfig{}
	ln, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("socket: %w", err), ln.Close())
	}
	return ln, nil
}

// start answers on ln until closeServers.
func (p *Peer) start(ln net.Listener, srv *http.Server) {
	p.servers = append(p.servers, srv)
	serve := srv.Serve
	if srv.TLSConfig != nil {
		serve = func(ln net.Listener) error { return srv.ServeTLS(ln, "", "") }
	}
	p.running.Go(func() {
		if err := serve(ln); !errors.Is(err, http.ErrServerClosed) {
			p.opts.Logger.Error("a listener stopped answering", "address", ln.Addr(), "err", err)
		}
	})
}

func (p *Peer) run(ring *cluster.RingFollower) {
	ctx, stop := context.WithCancel(context.Background())
	p.stopRun = stop
	p.running.Go(func() { p.renewal.Run(ctx) })
	p.running.Go(func() { p.gossip.Run(ctx) })
	p.running.Go(func() { p.marker().run(ctx) })
	p.running.Go(func() { p.ballast.Run(ctx) })
	p.running.Go(func() { p.backups.Run(ctx) })
	p.running.Go(func() { ring.Run(ctx) })
	p.running.Go(func() { p.announce(ctx) })
	p.running.Go(func() { p.findOut(ctx) })
	if p.filter.run != nil {
		p.running.Go(func() { p.filter.run(ctx) })
	}
	if p.probe != nil {
		p.running.Go(func() { p.probe.Run(ctx) })
	}
}

// Identity returns who this peer is.
func (p *Peer) Identity() Identity { return p.id }

// Core gives tests and benchmarks the parts below the sockets.
func (p *Peer) Core() *Core { return p.core }

// APIAddr returns the address the API is bound to.
func (p *Peer) APIAddr() net.Addr { return p.api.Addr() }

// Ready returns once this peer can serve linearizable reads, or ctx ends.
func (p *Peer) Ready(ctx context.Context) error {
	const pause = 20 * time.Millisecond
	for {
		limited, cancel := context.WithTimeout(ctx, time.Second)
		_, err := p.core.Store.Read(limited)
		cancel()
		if err == nil && !p.core.Session.ID().IsZero() {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %w)", context.Cause(ctx), errors.Join(err))
		}
	}
}

// Stop ends the peer in the order of design §5.5: duties (the gate first),
// leadership, callers, gossip, log. The data directory stays locked; it is the
// caller's. Stop is called once.
func (p *Peer) Stop(ctx context.Context) error {
	if err := p.core.Resign(ctx); err != nil {
		p.opts.Logger.Info("leadership was not handed on; the others will elect", "err", err)
	}
	p.stopRun()
	errs := []error{p.closeServers(), p.gossip.Leave()}
	p.forward.Close()
	p.hangUp()
	errs = append(errs, p.core.Close(ctx), p.port.Close(), p.closeFilter(), p.notes.Close(), p.closeKube())
	p.running.Wait()
	return errors.Join(errs...)
}

// closeServers takes no more calls. Answers under way may still be written,
// that of a leave above all.
func (p *Peer) closeServers() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	var errs []error
	for _, s := range p.servers {
		if s.Shutdown(ctx) != nil { // somebody holds on
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}
